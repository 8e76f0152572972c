// A program that serves Prometheus itself, with prometheus-cpp. PLUGIN_METRICS writes a file, and needs no code.
//
//     serve-metrics [ADDRESS:PORT]      127.0.0.1:9464 when not given; port 0 takes a free one
//
// It makes some calls, prints its port, and serves until its standard input ends.
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <opdock/opdock.hpp>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

using nlohmann::json;

namespace {

prometheus::MetricFamily counter(std::string name, std::string help) {
    return {std::move(name), std::move(help), prometheus::MetricType::Counter, {}};
}

prometheus::ClientMetric metric_of(const json &one, double value) {
    prometheus::ClientMetric metric;
    metric.label = {{"op", one.at("op").get<std::string>()},
                    {"implementation", one.at("impl_id").get<std::string>()},
                    {"plugin", one.at("plugin").get<std::string>()},
                    {"vendor", one.at("vendor").get<std::string>()}};
    metric.counter.value = value;
    return metric;
}

// The names are those in the file that PLUGIN_METRICS writes. The host outlives this object.
class Counters : public prometheus::Collectable {
  public:
    explicit Counters(const opdock::Host &host) : host_(host) {}

    // Runs on a thread of the server, at each scrape. Threads that make calls do not wait for it.
    std::vector<prometheus::MetricFamily> Collect() const override {
        prometheus::MetricFamily served = counter("opdock_served_total", "Calls that an implementation served.");
        prometheus::MetricFamily declined = counter("opdock_declined_total", "Calls that an implementation declined.");
        prometheus::MetricFamily failed = counter("opdock_failed_total", "Calls in which an implementation failed.");
        prometheus::MetricFamily fallbacks =
            counter("opdock_fallbacks_total", "Calls that an implementation served in place of another.");
        for (const json &one : json::parse(host_.counters())) {
            served.metric.push_back(metric_of(one, one.at("served").get<double>()));
            declined.metric.push_back(metric_of(one, one.at("declined").get<double>()));
            failed.metric.push_back(metric_of(one, one.at("failed").get<double>()));
            for (const auto &[reason, count] : one.at("fallbacks").items()) {
                fallbacks.metric.push_back(metric_of(one, count.get<double>()));
                fallbacks.metric.back().label.push_back({"reason", reason});
            }
        }
        return {std::move(served), std::move(declined), std::move(failed), std::move(fallbacks)};
    }

  private:
    const opdock::Host &host_;
};

} // namespace

int main(int argc, char **argv) {
    try {
        opdock::Host host;
        const auto counters = std::make_shared<Counters>(host); // the server keeps only a weak pointer
        prometheus::Exposer server(argc > 1 ? argv[1] : "127.0.0.1:9464", 1);
        server.RegisterCollectable(counters);

        std::vector<float> x(1024, -1.0f), y(x.size());
        const opdock::Tensor input(x.data(), opdock::f32, {4, 256});
        const opdock::Tensor output(y.data(), opdock::f32, {4, 256});
        const opdock::Op relu = host.op("relu");
        for (int step = 0; step < 10; ++step) {
            relu({input}, {output});
        }

        std::cout << "http://127.0.0.1:" << server.GetListeningPorts().front() << "/metrics" << std::endl;
        for (std::string line; std::getline(std::cin, line);) {
        }
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
