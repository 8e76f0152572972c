#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"

# Fetches the metrics while the program runs.
scrape() {
    coproc server { "$build/serve-metrics" 127.0.0.1:0; }
    local url pid=$server_PID
    read -r url <&"${server[0]}"
    python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$url"
    eval "exec ${server[1]}>&-"
    wait "$pid"
}

labels='op="relu",implementation="default.cpu",plugin="cpu",vendor=""'
expect 0 "# TYPE opdock_served_total counter" "opdock_served_total{$labels} 10" "opdock_failed_total{$labels} 0" \
    "opdock_fallbacks_total{$labels,reason=\"failed\"} 0" -- scrape
PLUGIN_PREFER=reference expect 0 'opdock_served_total{op="relu",implementation="reference.cpp"' -- scrape
expect 1 "binding" -- "$build/serve-metrics" nowhere:1
