#include "options.hpp"

#include "commands.hpp"
#include "package.hpp"

namespace opdock::plugin_pack {
namespace {

constexpr const char *examples = R"(Examples:
  plugin-pack keygen vendor --passphrase-file passphrase.txt
  plugin-pack patch --backend megatron=./Megatron-LM@core_r0.9 \
              --device-type Acme_A1 --task train --message "fused attention" \
              --plugin libacme.so --tune acme.tune.yaml --key vendor.key \
              --passphrase-file passphrase.txt --out acme-a1.opdock
  plugin-pack inspect acme-a1.opdock --pub vendor.pub
  plugin-pack unpatch acme-a1.opdock --backend megatron=./Megatron-LM \
              --pub vendor.pub
  plugin-pack install acme-a1.opdock --pub vendor.pub
  plugin-pack unpatch --device-type Acme_A1 --task train \
              --backend megatron=./Megatron-LM --pub vendor.pub
  plugin-pack uninstall Acme_A1-train-megatron

Exit codes: 0 fine; 1 what was asked for is absent or failed; 2 wrong usage; 3
the package is damaged or not signed with a trusted key; 4 a patch does not
fit, or the changes conflict with the commit; 5 a newer package is there.)";

// Options for the contents of a package that patch writes.
void add_contents(cli::CommandLine &line, Request &request) {
    const auto attaches = [&line, &request](const char *kind, const char *value, const char *help) {
        const auto take = [&request, kind](const std::vector<std::string> &files) {
            for (const std::string &file : files) {
                request.attachments.emplace_back(kind, cli::absolute_path(file));
            }
        };
        line.each(kind, value, take, help);
    };
    attaches("plugin", "FILE.so", "patch: add this plugin; may be repeated");
    attaches("tune", "FILE", "patch: add this tune file; may be repeated");
    attaches("policy", "FILE", "patch: add this policy; may be repeated");
    attaches("license", "FILE", "patch: add this license; may be repeated");
    line.texts("model", "NAME", request.models, "patch: a model that it was tested with; may be repeated");
    line.prose("message", "TEXT", request.message, "patch: what was changed");
    line.text("contact", "TEXT", request.contact, "patch: the contact for questions");
    line.texts("backend-version", "[NAME=]TEXT", request.backend_versions,
               "patch: the name of COMMIT shown to people (default: what `git describe` prints); may be repeated");
}

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(56);
    line.texts("backend", "BACKEND", request.backend_texts,
               "[NAME=]DIR: a repository; patch: with @COMMIT appended; may be repeated");
    line.text("device-type", "TYPE", request.device_type, is_device_type,
              "VENDOR_MODEL, such as Acme_A1: letters and digits with one '_' between them, starting with a capital",
              "VENDOR_MODEL, such as Acme_A1");
    line.choices("task", "TASK", request.tasks, {"train", "inference", "post_train"},
                 "train, inference or post_train; may be repeated");
    line.path("out", "PATH", request.out,
              "patch, rebase: the package; unpatch: the folder, build/TYPE by default; import-flagscale: the folder "
              "for the packages; history: the file; tvm-ffi: the plugin");
    add_contents(line, request);
    line.flag("no-questions", request.no_questions, "patch: do not ask for these four on the terminal");
    line.number("serial", request.serial, 1, most_serial,
                "higher than that of the previous package; patch: 1 by default; rebase: the old one plus 1 by default");
    line.flag("include-ignored", request.include_ignored, "patch: also pack what .gitignore leaves out");
    line.path("key", "NAME.key", request.key, "sign with this key");
    line.flag("unsigned", request.no_key, "do not sign");
    line.paths("recipient", "NAME.pub", request.recipients,
               "only this key can read the changes and files; may be repeated");
    line.path("passphrase-file", "FILE", request.passphrase_file,
              "read the passphrase of a secret key from the first line, without a prompt");
    line.flag("no-passphrase", request.no_passphrase, "keygen: leave the secret key unencrypted");
    line.paths("pub", "NAME.pub", request.public_keys,
               "trust this key instead of those that a host trusts; may be repeated");
    line.path("trusted", "DIR", request.trusted, "trust the keys of this folder instead");
    line.flag("allow-unsigned", request.allow_unsigned, "accept a package that is not signed");
    line.path("decrypt-key", "NAME.key", request.decrypt_key,
              "a key that the package is encrypted for; import-flagscale: FlagScale's private_key.pem");
    line.flag("3way", request.merges, "unpatch: merge with the commit that --backend names; revert: undo such a merge");
    line.flag("in-place", request.in_place, "unpatch: change the files of the checkouts");
    line.text("commit", "COMMIT", request.commit,
              "unpatch: use a package for this commit of a backend instead of the newest");
    line.flag("allow-older", request.allow_older, "unpatch, install: replace a newer package");
    line.path("folder", "DIR", request.folder,
              "where packages are installed, instead of the user's folder for plugins");
    line.flag("system", request.system, "use the folder for all users, /usr/local/lib/opdock/plugins");
    line.flag("dry-run", request.dry_run, "unpatch, revert, install: do everything except putting it in place");
    line.flag("force", request.force, "overwrite files");
    line.format(request.json, "docs/packages.md");
    line.ends("the version of this tool", "this text; with a command, the help for that command");
    line.conflict({"key"}, {"unsigned"});
    line.conflict({"passphrase-file"}, {"no-passphrase"});
    line.conflict({"pub"}, {"trusted"}, "--pub and --trusted both say whom you trust; give one");
    line.conflict({"system"}, {"folder"}, "--system and --folder both say where packages are installed; give one");
    line.conflict({"in-place"}, {"out"});
    line.words("words", request.subject);
    return line;
}

} // namespace

const cli::Tool<Request> tool = {
    {"plugin-pack", "plugin-pack (opdock) " OPDOCK_TOOL_VERSION,
     R"(Carries a vendor's changes to a framework's own source, with plugins, tune files
and policies, in one signed file.)",
     examples},
    describe_options,
    {
        {{"patch",
          R"([--backend [NAME=]DIR@COMMIT]... --device-type TYPE
 --task TASK... --out PACKAGE (--key NAME.key | --unsigned))",
          R"(packs all differences from COMMIT in the checkout DIR: committed, staged, in the worktree, or
             untracked. The repository is only read. Without --backend the package only has plugins and their
             files.)",
          {},
          {"backend",      "device-type", "task",     "out",       "plugin",          "tune",   "policy",
           "license",      "model",       "message",  "contact",   "backend-version", "serial", "include-ignored",
           "no-questions", "key",         "unsigned", "recipient", "passphrase-file", "force",  "json"},
          {"device-type", "task", "out"},
          "--device-type, --task and --out"},
         patch,
         check_patch,
         read_commits},
        {{"unpatch",
          R"((PACKAGE | --device-type TYPE --task TASK
 [--commit COMMIT]) --backend [NAME=]DIR...
 [--out DIR | --in-place] [--pub NAME.pub]
--3way PACKAGE --backend [NAME=]DIR@COMMIT...
 [--pub NAME.pub])",
          R"(writes the adapted files, from a repository that has COMMIT, to a folder of their own:
             build/TYPE/NAME. An earlier folder is replaced as a whole or left unchanged. --3way merges the changes
             with another commit. --in-place changes the files of the checkout DIR instead. Without PACKAGE, the
             newest installed package that fits is used.)",
          {0, 1, "the PACKAGE, or --device-type and --task", true},
          {"backend", "out", "3way", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "dry-run",
           "json", "device-type", "task", "commit", "folder", "system", "in-place", "allow-older"},
          {"backend"},
          "--backend [NAME=]DIR, a repository that has the commit"},
         unpatch,
         check_unpatch,
         read_merged},
        {{"revert",
          "PACKAGE --backend [NAME=]DIR... [--pub NAME.pub]",
          "reverts what unpatch --in-place did.",
          {1, 1, "the PACKAGE", true},
          {"backend", "3way", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "dry-run", "json"},
          {"backend"},
          "--backend [NAME=]DIR, a checkout that unpatch --in-place changed"},
         revert,
         nullptr,
         read_merged},
        {{"rebase",
          R"(PACKAGE --backend [NAME=]DIR@COMMIT... --out PACKAGE
 (--key NAME.key | --unsigned) [--pub NAME.pub])",
          "makes a package of the same changes for another commit.",
          {1, 1, "the PACKAGE", true},
          {"backend", "out", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "serial", "key",
           "unsigned", "recipient", "force", "json"},
          {"backend", "out"},
          "--backend [NAME=]DIR@COMMIT, the new commit, and --out"},
         rebase,
         check_keys,
         read_commits},
        {{"verify",
          "PACKAGE [--pub NAME.pub] [--decrypt-key NAME.key]",
          R"(says who signed a package, and checks that nothing in it was changed; an encrypted package is only
             checked completely with --decrypt-key.)",
          {1, 1, "the PACKAGE", true},
          {"pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "json"}},
         verify},
        {{"inspect",
          "PACKAGE [--pub NAME.pub] [--decrypt-key NAME.key]",
          "shows the content of a package.",
          {1, 1, "the PACKAGE", true},
          {"pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "json"}},
         inspect},
        {{"install",
          "PACKAGE [--system | --folder DIR] [--pub NAME.pub]",
          R"(puts the files of a package where hosts find its plugins: in the user's folder for plugins. An earlier
             package is replaced as a whole.)",
          {1, 1, "the PACKAGE", true},
          {"folder", "system", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "allow-older",
           "dry-run", "json"}},
         install},
        {{"uninstall",
          "NAME [--system | --folder DIR]",
          "removes an installed package.",
          {1, 1, "the NAME of a package, which list shows"},
          {"folder", "system", "json"}},
         uninstall},
        {{"list",
          "[--system | --folder DIR] [--pub NAME.pub]",
          "shows which packages are installed, and the files of earlier ones.",
          {},
          {"folder", "system", "pub", "trusted", "allow-unsigned", "json"}},
         list},
        {{"history",
          R"([--system | --folder DIR] [--pub NAME.pub]
 [--out FILE])",
          R"(prints patch_history.yaml: device, task, backends and the commits with packages, the newest last.)",
          {},
          {"folder", "system", "out", "force", "pub", "trusted", "allow-unsigned", "json"}},
         history,
         check_history},
        {{"keygen",
          "NAME [--passphrase-file FILE | --no-passphrase]",
          "makes NAME.key and NAME.pub, as plugin-sign does.",
          {1, 1, "the NAME of the key", true},
          {"passphrase-file", "no-passphrase"}},
         keygen},
        {{"import-flagscale",
          R"(HARDWARE --backend NAME=DIR[@COMMIT]...
 --out DIR (--key NAME.key | --unsigned))",
          R"(makes packages from FlagScale's folder hardware, or from the folder of one device in it: one for each
             device and task. Lists what cannot be imported.)",
          {1, 1, "the folder HARDWARE", true},
          {"backend", "out", "decrypt-key", "key", "unsigned", "recipient", "passphrase-file", "force", "json"},
          {"backend", "out"},
          "--backend NAME=DIR, a repository for each, and --out DIR"},
         import_flagscale,
         check_keys,
         read_folders},
        {{"tvm-ffi",
          "MANIFEST --out FILE.so",
          R"(makes a plugin from functions in modules of tvm-ffi, as described by the MANIFEST (docs/tvm-ffi.md). No
             compiler is needed.)",
          {1, 1, "the MANIFEST", true},
          {"out", "force"},
          {"out"},
          "--out FILE.so"},
         tvm_ffi_plugin},
    }};

} // namespace opdock::plugin_pack
