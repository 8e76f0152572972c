// plugin-pack on FlagScale's folders.
#include <filesystem>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "pack_workplace.hpp"

using namespace opdock::test;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("what stands in FlagScale's folder of hardware becomes packages, and the rest is listed with the reason") {
    const Workplace work;
    const Finished head = Command("/usr/bin/env")
                              .with("PATH", "/usr/bin:/bin")
                              .run({"git", "-C", work.path_of("clone"), "rev-parse", "HEAD"});
    const std::string commit = head.out.substr(0, 40);
    const std::string to_a = "diff --git a/a.py b/a.py\nindex 4cb29ea3..1a2b3c4d 100644\n--- a/a.py\n+++ b/a.py\n"
                             "@@ -1,3 +1,3 @@\n one\n-two\n+two, adapted\n three\n\n";
    const std::string new_file =
        "diff --git a/new dir/c.cu b/new dir/c.cu\nnew file mode 100644\nindex 00000000..3e757656\n"
        "--- /dev/null\n+++ b/new dir/c.cu\t\n@@ -0,0 +1 @@\n+new\n\n";
    const std::string description = // a task is named twice
        "backends_commit:\n  fw: " + commit +
        "\nbackends_version:\n  fw: 0.7.3\ncontact: a@b.c\n"
        "device_type: Acme_A1\nmodels:\n- llama\ntask:\n- train\n- inference\n- train\n";
    work.write("hardware/patch_history.yaml", "Acme_A1: {}\n");
    work.write("hardware/Acme_A1/fw/diff.yaml", description);
    work.write("hardware/Acme_A1/fw/a.py.patch", to_a);
    work.write("hardware/Acme_A1/fw/new dir/c.cu.patch", new_file);
    work.write("hardware/Acme_B2/fw/8151afd.yaml", description);
    work.write("hardware/Acme_B2/fw/8151afd.patch", to_a + new_file);
    work.write("hardware/Acme_C3/fw/diff.yaml", description);
    work.write("hardware/Acme_C3/fw/diff.patch.encrypted", "secret");
    work.write("hardware/Acme_D4/fw/diff.yaml", "device_type: Acme_D4\ntask: [train]\n");
    work.write("hardware/Acme_D4/fw/diff.patch", to_a);
    work.write("hardware/Acme_E5/other/diff.yaml", description);
    work.write("hardware/Acme_E5/other/diff.patch", to_a);
    work.write("hardware/Acme_F6/fw/diff.yaml", description);
    work.write("hardware/Acme_F6/fw/diff.patch",
               "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-zero\n+one\n");
    work.write("hardware/acme/scripts/run.sh", "#!/bin/sh\n");
    work.write("hardware/Acme_G7/fw/diff.yaml", "task: [train\n");
    const std::vector<std::string> arguments = {"import-flagscale",
                                                work.path_of("hardware"),
                                                "--backend",
                                                "fw=" + work.path_of("clone"),
                                                "--out",
                                                work.path_of("packages"),
                                                "--key",
                                                work.path_of("acme.key"),
                                                "--json"};
    const Finished imported = work.run(arguments);
    INFO(imported.err);
    CHECK(imported.code == 1); // not everything was imported
    const json document = json::parse(imported.out);
    REQUIRE(document.at("packages").size() == 4); // two devices, two tasks
    CHECK(document.at("packages").at(0).at("changes") == 2);
    std::map<std::string, std::string> reasons;
    for (const json &one : document.at("unresolved")) {
        reasons[fs::path(one.at("folder").get<std::string>()).parent_path().filename().string()] = one.at("reason");
    }
    CHECK(reasons.size() == 6);
    CHECK(contains(reasons["Acme_C3"], "is encrypted"));
    CHECK(contains(reasons["Acme_D4"], "does not name the commit"));
    CHECK(contains(reasons["Acme_E5"], "no repository was given for it"));
    CHECK(contains(reasons["Acme_F6"], "patch failed: a.py:1"));
    CHECK(contains(reasons["Acme_G7"], "diff.yaml:"));
    CHECK(contains(reasons["acme"], "is not a device type"));
    for (const char *device : {"Acme_A1", "Acme_B2"}) {
        CAPTURE(device);
        CHECK(work.unpatch(std::string("packages/") + device + "-train.opdock").code == 0);
        CHECK(work.files("out/fw") == work.files("framework"));
        fs::remove_all(work.path_of("out"));
    }
    check_error(work.run(arguments), 1, "--force overwrites it");
    std::vector<std::string> one = arguments; // for the folder of one device
    one[1] += "/Acme_A1/";
    one[5] = work.path_of("one");
    CHECK(work.run(one).code == 0);
    CHECK(work.files("one").size() == 2); // two tasks
}

TEST_CASE("each patch of FlagScale is applied by itself, and one that git refuses is named") {
    const Workplace work;
    const auto diff = [](const std::string &name) {
        return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\nindex 00000000..3e757656\n" +
               "--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+new\n";
    };
    const auto imported = [&](const std::string &name, const std::string &patch) {
        fs::remove_all(work.path_of("hardware"));
        work.write("hardware/Acme_A1/fw/diff.yaml", "task: [train]\n");
        work.write("hardware/Acme_A1/fw/" + name, patch);
        work.write("hardware/Acme_A1/fw/z.py.patch", diff("z.py"));
        return work.run({"import-flagscale", work.path_of("hardware"), "--backend",
                         "fw=" + work.path_of("clone") + "@HEAD", "--out", work.path_of("packages"), "--unsigned",
                         "--force"});
    };
    CHECK(imported("a.cu.patch", diff("a.cu")).code == 0);
    const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    std::string without_line_feed = diff("a.cu");
    without_line_feed.pop_back();
    const std::string none = "git cannot read this patch, or it changes nothing";
    const std::vector<std::pair<std::string, std::string>> bad = {
        {without_line_feed, "git apply failed: corrupt patch at line 7"},
        {"", none},
        {"garbage\n", none},
        {pointer, "this is a Git LFS pointer instead of the file; run `git lfs pull` in its repository"}};
    for (const auto &[patch, reason] : bad) {
        const auto &tried = patch;
        CAPTURE(tried);
        const Finished finished = imported("a.cu.patch", patch);
        CHECK(finished.code == 1);
        CHECK(contains(finished.out, "a.cu.patch: " + reason));
        CHECK_FALSE(contains(finished.out, "--allow-empty"));
        CHECK_FALSE(contains(finished.out, ".opdock-pack")); // a temporary folder
    }
    const Finished late = imported("zz.py.patch", without_line_feed);
    CHECK(contains(late.out, "zz.py.patch: git apply failed: corrupt patch at line 7"));
    work.write("hardware/Acme_A1/fw/diff.yaml", pointer);
    const Finished described =
        work.run({"import-flagscale", work.path_of("hardware"), "--backend", "fw=" + work.path_of("clone") + "@HEAD",
                  "--out", work.path_of("packages"), "--unsigned", "--force"});
    CHECK(described.code == 1);
    CHECK(contains(described.out, "diff.yaml: this is a Git LFS pointer instead of the file"));
}

TEST_CASE("what of FlagScale's folder is ambiguous, lost or one level up is said") {
    const Workplace work;
    const std::string diff = "diff --git a/z.py b/z.py\nnew file mode 100644\nindex 00000000..3e757656\n"
                             "--- /dev/null\n+++ b/z.py\n@@ -0,0 +1 @@\n+new\n";
    const auto import = [&](const std::string &folder) {
        return work.run({"import-flagscale", work.path_of(folder), "--backend", "fw=" + work.path_of("clone") + "@HEAD",
                         "--backend", "gw=" + work.path_of("clone") + "@HEAD", "--out", work.path_of("packages"),
                         "--unsigned", "--force"});
    };
    work.write("above/hardware/Acme_A1/fw/diff.yaml", "task: [train]\n");
    work.write("above/hardware/Acme_A1/fw/diff.patch", diff);
    work.write("above/hardware/Acme_A1/gw/diff.yaml", "task: [train]\n");
    work.write("above/hardware/Acme_A1/gw/diff.patch", diff);
    work.write("above/hardware/Acme_A1/gw/a/z.py.patch", diff);
    const Finished above = import("above");
    CHECK(above.code == 1);
    CHECK(above.out.empty());
    CHECK(contains(above.err, "name " + work.path_of("above/hardware")));
    const Finished both = import("above/hardware");
    CHECK(both.code == 1);
    CHECK(contains(both.out, "gw: it has both diff.patch and patches of single files, such as a/z.py.patch"));
    const Finished inside = work.run({"inspect", work.path_of("packages/Acme_A1-train.opdock"), "--allow-unsigned"});
    CHECK(contains(inside.out, "Without gw, which could not be imported from FlagScale."));
}

namespace {

std::string new_file(const std::string &name) {
    return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\nindex 00000000..3e757656\n" +
           "--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+new\n";
}

} // namespace

TEST_CASE("each layout that FlagScale's folders had is imported, or refused with its reason") {
    const Workplace work;
    const std::string commit = Command("/usr/bin/env")
                                   .with("PATH", "/usr/bin:/bin")
                                   .run({"git", "-C", work.path_of("clone"), "rev-parse", "HEAD"})
                                   .out.substr(0, 40);
    // The file is named after the commit of FlagScale, which the description does not have.
    work.write("hardware/Acme_A1/FlagScale/" + commit.substr(0, 7) + ".yaml", "task:\n- train\n");
    work.write("hardware/Acme_A1/FlagScale/" + commit.substr(0, 7) + ".patch", new_file("z.py"));
    work.write("hardware/Acme_B2/" + commit.substr(0, 8) + "/" + commit.substr(0, 8) + ".patch", // made by format-patch
               "From 1a2b3c Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\nSubject: [PATCH] x\n\n---\n z.py | 1 +\n\n" +
                   new_file("z.py") + "-- \n2.34.1\n");
    work.write("hardware/acme_C3/FlagScale/diff.yaml", "task: [train]\ncommit: " + commit + "\n");
    work.write("hardware/acme_C3/FlagScale/diff.patch", new_file("z.py"));
    work.write("hardware/Acme_D4/FlagScale/diff.yaml", "task: [train, llama3]\ncommit: " + commit + "\n");
    work.write("hardware/Acme_D4/FlagScale/diff.patch", new_file("z.py"));
    work.write("hardware/Acme_E5/FlagScale/diff.yaml", "task: [train]\ncommit: " + commit + "\n");
    work.write(
        "hardware/Acme_E5/FlagScale/diff.patch",
        "diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n"
        "diff --git a/b.bin b/c.bin\nsimilarity index 100%\nrename from b.bin\nrename to c.bin\n"
        "diff --git a/crlf b/crlf\nnew file mode 100644\nindex 00000000..3e757656\n--- /dev/null\n+++ b/crlf\n"
        "@@ -0,0 +1 @@\n+new\r\n"
        "diff --git a/parts b/parts\nnew file mode 160000\nindex 00000000..32dfbca0\n--- /dev/null\n+++ b/parts\n"
        "@@ -0,0 +1 @@\n+Subproject commit 32dfbca01f215d0bba47dd799f623d1f19b3b7a7\n");
    const Finished imported =
        work.run({"import-flagscale", work.path_of("hardware"), "--backend", "FlagScale=" + work.path_of("clone"),
                  "--out", work.path_of("packages"), "--unsigned", "--json"});
    INFO(imported.out);
    CHECK(imported.code == 1);
    std::map<std::string, std::string> reasons;
    const json document = json::parse(imported.out);
    for (const json &one : document.at("unresolved")) {
        reasons[fs::path(one.at("folder").get<std::string>()).parent_path().filename().string()] = one.at("reason");
    }
    CHECK(reasons.size() == 3);
    CHECK(contains(reasons["Acme_B2"], "there is no diff.yaml"));
    CHECK(contains(reasons["acme_C3"], "starting with a capital"));
    CHECK(contains(reasons["Acme_D4"], "diff.yaml: 'llama3' is not a task; expected train"));
    const auto unpatched = [&](const std::string &device) {
        fs::remove_all(work.path_of("out"));
        CHECK(work.run({"unpatch", work.path_of("packages/" + device + "-train.opdock"), "--backend",
                        "FlagScale=" + work.path_of("clone"), "--out", work.path_of("out"), "--allow-unsigned"})
                  .code == 0);
        return work.files("out/FlagScale");
    };
    CHECK(unpatched("Acme_A1").at("z.py") == "new\n");
    const auto files = unpatched("Acme_E5");
    CHECK(files.at("c.bin") == std::string("\0\1\2", 3));
    CHECK(!files.contains("b.bin"));
    CHECK(files.at("crlf") == "new\r\n");
    CHECK((fs::status(work.path_of("out/FlagScale/a.py")).permissions() & fs::perms::owner_exec) != fs::perms::none);
    CHECK(fs::is_empty(work.path_of("out/FlagScale/parts")));
    const Finished inside = work.run({"inspect", work.path_of("packages/Acme_E5-train.opdock"), "--allow-unsigned"});
    CHECK(contains(inside.out, "Without the files of the submodule FlagScale/parts"));
}

namespace {

void run_openssl(const std::vector<std::string> &arguments) {
    const Finished finished = Command("/usr/bin/openssl").run(arguments);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
}

} // namespace

TEST_CASE("patches that FlagScale encrypted are imported with its private key") {
    const Workplace work;
    const std::string diff = "diff --git a/z.py b/z.py\nnew file mode 100644\nindex 00000000..3e757656\n"
                             "--- /dev/null\n+++ b/z.py\n@@ -0,0 +1 @@\n+new\n";
    for (const char *name : {"private_key.pem", "other.pem"}) {
        run_openssl({"genrsa", "-traditional", "-out", work.path_of(name), "2048"});
    }
    run_openssl({"rsa", "-in", work.path_of("private_key.pem"), "-pubout", "-out", work.path_of("public_key.pem")});
    // As FlagScale's encryption_utils.py does it: the start, the key, the patch.
    const std::string start(16, 'i'), aes_key(32, 'k');
    work.write("diff", diff);
    work.write("key", aes_key);
    run_openssl({"pkeyutl", "-encrypt", "-pubin", "-inkey", work.path_of("public_key.pem"), "-in", work.path_of("key"),
                 "-out", work.path_of("sealed"), "-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256",
                 "-pkeyopt", "rsa_mgf1_md:sha256"});
    std::string hex_start, hex_key;
    for (size_t i = 0; i < 16; ++i) {
        hex_start += "69";
        hex_key += "6b6b";
    }
    run_openssl({"enc", "-aes-256-cbc", "-K", hex_key, "-iv", hex_start, "-in", work.path_of("diff"), "-out",
                 work.path_of("body")});
    const std::string encrypted =
        start + Workplace::read(work.path_of("sealed")) + Workplace::read(work.path_of("body"));
    work.write("hardware/Acme_A1/fw/diff.yaml", "task: [train]\n");
    const std::string file = "hardware/Acme_A1/fw/diff.patch.encrypted";
    work.write(file, encrypted);
    const auto import = [&](const std::vector<std::string> &more) {
        std::vector<std::string> arguments = {"import-flagscale",
                                              work.path_of("hardware"),
                                              "--backend",
                                              "fw=" + work.path_of("clone") + "@HEAD",
                                              "--out",
                                              work.path_of("packages"),
                                              "--unsigned",
                                              "--force"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return work.run(arguments);
    };
    CHECK(contains(import({}).out, "its patch is encrypted; decrypt it with --decrypt-key private_key.pem"));
    const std::vector<std::string> with_key = {"--decrypt-key", work.path_of("private_key.pem")};
    CHECK(import(with_key).code == 0);
    CHECK(work.unpatch("packages/Acme_A1-train.opdock", {"--allow-unsigned"}).code == 0);
    CHECK(work.files("out/fw").at("z.py") == "new\n");

    CHECK(contains(import({"--decrypt-key", work.path_of("other.pem")}).out,
                   "diff.patch.encrypted: it is encrypted for another key, or damaged"));
    check_error(import({"--decrypt-key", work.path_of("public_key.pem")}), 1,
                "public_key.pem: expected the private_key.pem of FlagScale's --key-path");
    work.write(file, encrypted.substr(0, encrypted.size() - 1));
    CHECK(contains(import(with_key).out, "diff.patch.encrypted: it is damaged"));
    work.write(file, encrypted.substr(0, 200));
    CHECK(contains(import(with_key).out, "diff.patch.encrypted: it is too short"));
}
