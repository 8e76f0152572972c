#include "host/live_socket.hpp"

#include <cstring>
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "made_host.hpp"
#include "temporary_directory.hpp"

using namespace opdock::test;
using nlohmann::json;
using opdock::core::Descriptor;
using opdock::core::RawEnvironment;

namespace {

RawEnvironment live_in(const TemporaryDirectory &runtime, RawEnvironment others = {}) {
    others["PLUGIN_LIVE"] = "1";
    others["XDG_RUNTIME_DIR"] = runtime.path().string();
    return others;
}

std::string socket_in(const TemporaryDirectory &runtime, const std::string &host = "") {
    return runtime.path().string() + "/opdock/" + std::to_string(::getpid()) + host + ".sock";
}

sockaddr_un address_of(const std::string &path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

Descriptor connected_to(const std::string &path) {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0);
    return socket;
}

// The whole answer; "" if there is none.
std::string answer_to(const std::string &path, const std::string &question) {
    const Descriptor socket = connected_to(path);
    (void)!::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL);
    ::shutdown(socket.get(), SHUT_WR);
    std::string answer;
    char part[4096];
    for (ssize_t size = 0; (size = ::recv(socket.get(), part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<std::size_t>(size));
    }
    return answer;
}

json ask(const std::string &path, const json &question) {
    return json::parse(answer_to(path, question.dump() + "\n"));
}

} // namespace

TEST_CASE("a host answers by a socket where LIVE asks for it, and only there") {
    const TemporaryDirectory runtime;
    {
        MadeHost silent(RawEnvironment{{"XDG_RUNTIME_DIR", runtime.path().string()}});
        CHECK_FALSE(std::filesystem::exists(runtime.path() / "opdock"));
    }
    {
        MadeHost host(live_in(runtime));
        host.add("default.one", OPDOCK_KIND_DEFAULT);
        const json answer = ask(socket_in(runtime), {{"ask", "describe"}});
        json described = host->describe();
        CHECK(answer.at("process").at("pid") == ::getpid());
        CHECK(std::filesystem::exists(answer.at("process").at("program").get<std::string>()));
        described["process"] = answer.at("process");
        described["counters"] = json::array();
        CHECK(answer == described);
        CHECK(host.logged("'plugin-ls --pid " + std::to_string(::getpid()) + "' can query this process") == 1);
    }
    CHECK_FALSE(std::filesystem::exists(socket_in(runtime)));
}

TEST_CASE("only the user may reach the socket") {
    const TemporaryDirectory runtime;
    const MadeHost host(live_in(runtime));
    struct stat status = {};
    REQUIRE(::stat((runtime.path() / "opdock").c_str(), &status) == 0);
    CHECK((status.st_mode & 07777u) == 0700u);
}

TEST_CASE("where others may write to the folder there is no socket, and a warning") {
    const TemporaryDirectory runtime;
    std::filesystem::create_directory(runtime.path() / "opdock");
    std::filesystem::permissions(runtime.path() / "opdock", std::filesystem::perms::all);
    MadeHost host(live_in(runtime));
    CHECK(host.logged(
              "PLUGIN_LIVE=1 is ignored, and 'plugin-ls --pid' cannot query this process: other users may write") == 1);
    CHECK_FALSE(std::filesystem::exists(socket_in(runtime)));
}

TEST_CASE("a path that is too long for a socket is a warning") {
    const TemporaryDirectory runtime;
    const std::string folder = (runtime.path() / std::string(100, 'x')).string();
    std::filesystem::create_directory(folder);
    MadeHost host(RawEnvironment{{"PLUGIN_LIVE", "1"}, {"XDG_RUNTIME_DIR", folder}});
    CHECK(host.logged("the path of a socket has at most 107 bytes") == 1);
}

TEST_CASE("a decision, the policy and health of a live host") {
    const TemporaryDirectory runtime;
    MadeHost host(live_in(runtime));
    Made &bad = host.add("default.bad", OPDOCK_KIND_DEFAULT);
    host.add("reference.good", OPDOCK_KIND_REFERENCE);
    const std::string path = socket_in(runtime);
    const json question = {{"ask", "explain"}, {"op", "test.add"}, {"device", nullptr}, {"dtypes", "f32"}};
    CHECK(ask(path, question).at("chain") == json({"default.bad", "reference.good"}));

    bad.status = OPDOCK_FAILED_CLEAN;
    Rows a;
    for (int i = 0; i < 3; ++i) {
        CHECK(host.op("test.add").try_call({a.x}, {a.y}) == OPDOCK_OK);
    }
    CHECK(ask(path, question).at("chain") == json({"reference.good"}));
    CHECK(ask(path, {{"ask", "reset_health"}, {"op", "test.add"}}) == json::object());
    CHECK(ask(path, question).at("chain") == json({"default.bad", "reference.good"}));
    CHECK(ask(path, {{"ask", "reload_policy"}}) == json::object());
    CHECK(ask(path, {{"ask", "devices"}}).at(0).at("type") == "cpu");
}

TEST_CASE("what cannot be answered is said, and the next question is answered") {
    const TemporaryDirectory runtime;
    const MadeHost host(live_in(runtime));
    const std::string path = socket_in(runtime);
    const auto error_of = [&](const std::string &question) {
        return json::parse(answer_to(path, question + "\n")).at("error").get<std::string>();
    };
    CHECK(error_of(R"({"ask": "explain", "op": "none"})").find("'none'") != std::string::npos);
    CHECK(error_of(R"({"ask": "sing"})").find("cannot answer 'sing'") != std::string::npos);
    CHECK_FALSE(error_of("{").empty());
    CHECK_FALSE(error_of("[]").empty());
    CHECK_FALSE(error_of(R"({"ask": 7})").empty());
    CHECK(answer_to(path, "") == "");
    CHECK(answer_to(path, R"({"ask": "describe"})") == ""); // without a line feed the question is incomplete
    CHECK(answer_to(path, std::string(200'000, 'x')) == "");
    CHECK(ask(path, {{"ask", "describe"}}).contains("ops"));
}

TEST_CASE("a client that says nothing does not keep the host from closing") {
    const TemporaryDirectory runtime;
    auto host = std::make_unique<MadeHost>(live_in(runtime));
    const Descriptor silent = connected_to(socket_in(runtime));
    host.reset();
    char byte = 0;
    CHECK(::recv(silent.get(), &byte, 1, 0) <= 0);
}

TEST_CASE("each host of a process has a socket, and what a killed process left is taken") {
    const TemporaryDirectory runtime;
    std::filesystem::create_directory(runtime.path() / "opdock");
    std::filesystem::permissions(runtime.path() / "opdock", std::filesystem::perms::owner_all);
    {
        const Descriptor left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_un address = address_of(socket_in(runtime));
        REQUIRE(::bind(left.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0);
    }
    MadeHost first(live_in(runtime));
    MadeHost second(live_in(runtime));
    first.add("default.first", OPDOCK_KIND_DEFAULT);
    second.add("default.second", OPDOCK_KIND_DEFAULT);
    const json question = {{"ask", "explain"}, {"op", "test.add"}};
    CHECK(ask(socket_in(runtime), question).at("chain") == json({"default.first"}));
    CHECK(ask(socket_in(runtime, ".2"), question).at("chain") == json({"default.second"}));
}

TEST_CASE("a forked child leaves the socket to its parent") {
    const TemporaryDirectory runtime;
    auto host = std::make_unique<MadeHost>(live_in(runtime));
    const pid_t child = ::fork();
    if (child == 0) {
        host.reset();
        ::_exit(0);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(ask(socket_in(runtime), {{"ask", "describe"}}).contains("ops"));
}

TEST_CASE("XDG_RUNTIME_DIR of a process with raised privileges means nothing, nor does LIVE") {
    const TemporaryDirectory runtime;
    const auto environment = opdock::core::make_environment("PLUGIN_", live_in(runtime), true);
    CHECK(environment.user_runtime_dir.empty());
    CHECK_FALSE(environment.is_on(opdock::core::Variable::live));
}
