#include "plot.hpp"

#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/gnuplot.hpp"
#include "cli/quantities.hpp"
#include "op-call/subject.hpp"
#include "report.hpp"

namespace opdock::plugin_tune {

using cli::gnuplot_text;
using nlohmann::json;

std::string plot_script(const json &document) {
    std::ostringstream data;
    size_t count = 0;
    for (const json &shape : document.at("shapes")) {
        if (shape.value("outcome", "") != "tuned") {
            continue;
        }
        const double before = shape.at("before").at("microseconds").get<double>();
        const double best = shape.at("best").value("microseconds", before);
        const std::string remark =
            cli::time_text(before) + " to " + cli::time_text(best) + "  " + config_text(shape.at("best").at("config"));
        data << ++count << ' ' << gnuplot_text(op_call::label_of(shape) + "  " + shape.value("impl_id", "")) << ' '
             << (best > 0 ? before / best : 1) << ' ' << gnuplot_text(remark) << '\n';
    }
    if (count == 0) {
        return "";
    }
    std::ostringstream script;
    script
        << "set terminal svg noenhanced size 1000," << 130 + 36 * count << " background '#ffffff'\n"
        << "$shapes << END\n"
        << data.str() << "END\n"
        << "set title " << gnuplot_text("Gain from tuning on " + document.value("device", "")) << "\n"
        << "set xlabel 'x faster than before (median of one run)'\n"
        << "set xrange [0:*]\nset offsets graph 0.0, graph 0.45, 0, 0\n"
        << "set yrange [" << count << ".6:0.4]\n"
        << "set grid xtics\nset style fill solid 0.8 noborder\nset arrow from 1, graph 0 to 1, graph 1 nohead lc rgb "
           "'#5f6368'\n"
        << "plot $shapes using ($3/2):1:($3/2):(0.3):ytic(2) with boxxyerror lc rgb '#1a73e8' notitle, \\\n"
        << "     '' using 3:1:4 with labels left offset 0.5,0 notitle\n";
    return script.str();
}

} // namespace opdock::plugin_tune
