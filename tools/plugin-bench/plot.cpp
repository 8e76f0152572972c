#include "plot.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/gnuplot.hpp"
#include "cli/quantities.hpp"
#include "rates.hpp"

namespace opdock::plugin_bench {
namespace {

using cli::gnuplot_text;
using nlohmann::json;

struct Point {
    std::string op;
    std::string dtype;
    std::string impl_id;
    double bytes;
    double microseconds;
    double fraction; // of the roofline; 0 if unknown
};

std::vector<Point> points_of(const json &document) {
    std::vector<Point> points;
    for (const json &shape : document.at("shapes")) {
        for (const json &one : shape.at("implementations")) {
            if (one.at("outcome") == "timed") {
                points.push_back({shape.at("op").get<std::string>(), shape.at("dtype").get<std::string>(),
                                  one.at("impl_id").get<std::string>(), shape.at("bytes").get<double>(),
                                  one.at("microseconds").get<double>(),
                                  one.at("roofline").is_number() ? one.at("roofline").get<double>() : 0});
            }
        }
    }
    return points;
}

// In alphabetical order, so that plots of the same plugins use the same colours.
std::vector<std::string> implementations_of(const std::vector<Point> &points) {
    std::vector<std::string> ids;
    for (const Point &point : points) {
        if (std::find(ids.begin(), ids.end(), point.impl_id) == ids.end()) {
            ids.push_back(point.impl_id);
        }
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

// The Okabe-Ito palette, which is safe for colour-blind readers.
const char *colour_of(size_t index) {
    constexpr std::array<const char *, 7> colours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                     "#d55e00", "#56b4e9", "#000000"};
    return colours[index % colours.size()];
}

// The points of each op's and dtype's largest shape; best first, those of one op together.
std::vector<Point> bars_of(const std::vector<Point> &points) {
    std::map<std::string, double> largest; // bytes of "op dtype"
    std::map<std::string, double> best;    // best fraction for the same key
    const auto key = [](const Point &point) { return point.op + " " + point.dtype; };
    for (const Point &point : points) {
        largest[key(point)] = std::max(largest[key(point)], point.bytes);
    }
    std::vector<Point> bars;
    for (const Point &point : points) {
        if (point.bytes == largest[key(point)]) {
            bars.push_back(point);
            best[key(point)] = std::max(best[key(point)], point.fraction);
        }
    }
    std::stable_sort(bars.begin(), bars.end(), [&](const Point &a, const Point &b) {
        if (key(a) != key(b)) {
            return best[key(a)] != best[key(b)] ? best[key(a)] > best[key(b)] : key(a) < key(b);
        }
        return a.fraction > b.fraction;
    });
    return bars;
}

// One data block per implementation, with its bars at their positions from the top.
void write_bars(std::ostringstream &script, const std::vector<Point> &bars, const std::vector<std::string> &ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
        script << "$bars" << i << " << END\n";
        for (size_t at = 0; at < bars.size(); ++at) {
            const Point &bar = bars[at];
            if (bar.impl_id == ids[i]) {
                script << at + 1 << ' ' << 100 * bar.fraction << ' '
                       << gnuplot_text(bar.op + "  " + bar.dtype + "  " + bar.impl_id) << ' '
                       << gnuplot_text((bar.fraction > 0 ? cli::short_number(100 * bar.fraction) + " percent, " : "") +
                                       cli::time_text(bar.microseconds))
                       << '\n';
            }
        }
        script << "END\n";
    }
}

// The points of one op, dtype and implementation, by size.
struct Line {
    std::string op; // and the dtype
    size_t implementation;
    std::vector<Point> points;
};

std::vector<Line> lines_of(const std::vector<Point> &points, const std::vector<std::string> &ids) {
    std::map<std::pair<std::string, size_t>, std::vector<Point>> found;
    for (const Point &point : points) {
        const auto at = std::find(ids.begin(), ids.end(), point.impl_id) - ids.begin();
        found[{point.op + " " + point.dtype, static_cast<size_t>(at)}].push_back(point);
    }
    std::vector<Line> lines;
    for (auto &[key, line] : found) {
        std::stable_sort(line.begin(), line.end(), [](const Point &a, const Point &b) { return a.bytes < b.bytes; });
        lines.push_back({key.first, key.second, std::move(line)});
    }
    return lines;
}

void write_lines(std::ostringstream &script, const std::vector<Line> &lines) {
    for (size_t i = 0; i < lines.size(); ++i) {
        script << "$line" << i << " << END\n";
        for (const Point &point : lines[i].points) {
            script << point.bytes << ' ' << point.microseconds << '\n';
        }
        script << "END\n";
    }
}

} // namespace

std::string plot_script(const json &document) {
    const std::vector<Point> points = points_of(document);
    if (points.empty()) {
        return "";
    }
    const std::vector<std::string> ids = implementations_of(points);
    const std::vector<Point> bars = bars_of(points);
    const size_t head = 60;
    const size_t upper = 130 + 24 * bars.size();
    const std::vector<Line> lines = lines_of(points, ids);
    const size_t lower = std::max<size_t>(460, 120 + 18 * (lines.size() + 1)); // room for the key
    const auto height = static_cast<double>(head + upper + lower);
    std::ostringstream script;
    script << "set terminal svg noenhanced size 1000," << head + upper + lower << " background '#ffffff'\n";
    write_bars(script, bars, ids);
    write_lines(script, lines);
    const double split = static_cast<double>(lower) / height;
    script << "set multiplot title " << gnuplot_text(document.value("device", "") + ", " + document.value("model", ""))
           << "\n"
           << "set style fill solid 0.85 noborder\nset grid xtics\n"
           << "set origin 0," << split << "\nset size 1," << static_cast<double>(upper) / height << "\n"
           << "set title 'Speed at the largest shape of each op, and the time of one run'\n"
           << "set xlabel 'percent of the measured copy rate (for linear ops: of the matmul rate); more than 100: "
              "tensors were in a cache'\n"
           << "set xrange [0:*]\nset offsets graph 0.0, graph 0.3, 0, 0\n"
           << "set yrange [" << bars.size() << ".6:0.4]\nset ytics scale 0\nset key off\n"
           << "set arrow 1 from 100, graph 0 to 100, graph 1 nohead dashtype 2 lc rgb '#5f6368'\nplot ";
    for (size_t i = 0; i < ids.size(); ++i) {
        script << (i == 0 ? "" : ", \\\n     ") << "$bars" << i
               << " using ($2/2):1:($2/2):(0.36):ytic(3) with boxxyerror lc rgb '" << colour_of(i) << "' notitle, $bars"
               << i << " using 2:1:4 with labels left offset 0.5,0 notitle";
    }
    const double copy = document.at("ceilings").at("copy").at("bytes_per_second").get<double>();
    script << "\nunset arrow 1\nunset offsets\nset origin 0,0\nset size 1," << split << "\n"
           << "set title 'Time of one run over the bytes it has to move'\n"
           << "set xlabel 'bytes read and written'\nset ylabel 'microseconds'\n"
           << "set logscale xy\nset autoscale xy\nset format x '%.0s %cB'\nset format y '%g'\n"
           << "set ytics auto scale 1\nset grid xtics ytics\nset key outside right top\nplot ";
    // The colour shows the implementation; the point type shows the op and dtype.
    size_t ops = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
        ops += i > 0 && lines[i].op != lines[i - 1].op ? 1 : 0;
        script << "$line" << i << " using 1:2 with linespoints pt " << 1 + ops % 15 << " ps 0.7 lw 1.5 lc rgb '"
               << colour_of(lines[i].implementation) << "' title "
               << gnuplot_text(lines[i].op + "  " + ids[lines[i].implementation]) << ", \\\n     ";
    }
    script << "1e6*x/" << copy << " with lines dashtype 2 lc rgb '#5f6368' title 'at the copy rate'\nunset multiplot\n";
    return script.str();
}

} // namespace opdock::plugin_bench
