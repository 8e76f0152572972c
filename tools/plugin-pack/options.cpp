#include "options.hpp"
#include "package.hpp"

namespace opdock::plugin_pack {
namespace {

constexpr const char *introduction =
    R"(Usage: plugin-pack patch [--backend [NAME=]DIR@COMMIT]... --device-type TYPE
                   --task TASK... --out PACKAGE (--key NAME.key | --unsigned)
       plugin-pack unpatch (PACKAGE | --device-type TYPE --task TASK
                   [--commit COMMIT]) --backend [NAME=]DIR...
                   [--out DIR | --in-place] [--pub NAME.pub]
       plugin-pack unpatch --3way PACKAGE --backend [NAME=]DIR@COMMIT...
                   [--pub NAME.pub]
       plugin-pack revert PACKAGE --backend [NAME=]DIR... [--pub NAME.pub]
       plugin-pack rebase PACKAGE --backend [NAME=]DIR@COMMIT... --out PACKAGE
                   (--key NAME.key | --unsigned) [--pub NAME.pub]
       plugin-pack verify PACKAGE [--pub NAME.pub] [--decrypt-key NAME.key]
       plugin-pack inspect PACKAGE [--pub NAME.pub] [--decrypt-key NAME.key]
       plugin-pack install PACKAGE [--system | --folder DIR] [--pub NAME.pub]
       plugin-pack uninstall NAME [--system | --folder DIR]
       plugin-pack list [--system | --folder DIR] [--pub NAME.pub]
       plugin-pack history [--system | --folder DIR] [--pub NAME.pub]
                   [--out FILE]
       plugin-pack keygen NAME [--passphrase-file FILE | --no-passphrase]
       plugin-pack import-flagscale HARDWARE --backend NAME=DIR[@COMMIT]...
                   --out DIR (--key NAME.key | --unsigned)

Carries what a vendor changed in a framework's own source, with plugins, tune
files and policies, in one signed file.

  patch    packs all that differs from COMMIT in the checkout DIR: committed,
           staged, in the worktree, or untracked. The repository is only read.
           Without --backend the package is of plugins and their files alone.
  unpatch  puts the adapted files together from a repository that has COMMIT, in
           a folder of their own: build/TYPE/NAME. An earlier one is replaced as
           a whole, or left as it is. --3way merges the changes with another
           commit. --in-place changes the files of the checkout DIR instead.
           Without PACKAGE the newest that is installed and fits is taken.
  revert   takes back what unpatch --in-place did.
  rebase   makes a package of the same changes to another commit.
  verify   says who signed a package, and that nothing in it was changed; of one
           that is encrypted all of it with --decrypt-key alone.
  inspect  shows what is in it.
  install  puts the files of a package where hosts find its plugins: in the
           user's folder for plugins. An earlier one is replaced as a whole.
  uninstall
           takes them away again.
  list     shows which packages are installed, and the files of earlier ones.
  history  prints patch_history.yaml: device, task, backends and the commits
           that there are packages for, the newest last.
  keygen   makes NAME.key and NAME.pub, as plugin-sign does.
  import-flagscale
           makes packages of what stands in the folder hardware of FlagScale, or
           in that of one device, one for each device and task; what cannot be
           taken over is listed.
)";

constexpr const char *examples = R"(
Examples:
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
the package is damaged, or by nobody who is trusted; 4 a patch does not fit,
or changes and commit do not go together; 5 a newer package is there already.
)";

} // namespace

const std::vector<cli::Command<Action>> &commands() {
    static const std::vector<cli::Command<Action>> all = {
        {"patch",
         Action::patch,
         nullptr,
         {"backend",      "device-type", "task",     "out",       "plugin",          "tune",   "policy",
          "license",      "model",       "message",  "contact",   "backend-version", "serial", "include-ignored",
          "no-questions", "key",         "unsigned", "recipient", "passphrase-file", "force",  "json"}},
        {"unpatch",
         Action::unpatch,
         "the PACKAGE, or --device-type and --task",
         {"backend", "out", "3way", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "dry-run",
          "json", "device-type", "task", "commit", "folder", "system", "in-place", "allow-older"},
         true},
        {"revert",
         Action::revert,
         "the PACKAGE",
         {"backend", "3way", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "dry-run", "json"}},
        {"install",
         Action::install,
         "the PACKAGE",
         {"folder", "system", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "allow-older",
          "dry-run", "json"}},
        {"uninstall", Action::uninstall, "the NAME of a package, which list shows", {"folder", "system", "json"}},
        {"list", Action::list, nullptr, {"folder", "system", "pub", "trusted", "allow-unsigned", "json"}},
        {"history",
         Action::history,
         nullptr,
         {"folder", "system", "out", "force", "pub", "trusted", "allow-unsigned", "json"}},
        {"rebase",
         Action::rebase,
         "the PACKAGE",
         {"backend", "out", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "serial", "key",
          "unsigned", "recipient", "force", "json"}},
        {"verify",
         Action::verify,
         "the PACKAGE",
         {"pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "json"}},
        {"inspect",
         Action::inspect,
         "the PACKAGE",
         {"pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "json"}},
        {"import-flagscale",
         Action::import_flagscale,
         "the folder HARDWARE",
         {"backend", "out", "decrypt-key", "key", "unsigned", "recipient", "passphrase-file", "force", "json"}},
        {"keygen", Action::keygen, "the NAME of the key", {"passphrase-file", "no-passphrase"}},
    };
    return all;
}

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(56);
    const auto attaches = [&line, &request](const char *kind, const char *value, const char *help) {
        const auto take = [&request, kind](const std::vector<std::string> &files) {
            for (const std::string &file : files) {
                request.attachments.emplace_back(kind, cli::absolute_path(file));
            }
        };
        line.each(kind, value, take, help);
    };
    line.texts("backend", "BACKEND", request.backend_texts,
               "[NAME=]DIR: a repository; patch: with @COMMIT behind it; may be repeated");
    line.text("device-type", "TYPE", request.device_type, "VENDOR_MODEL, such as Acme_A1");
    line.texts("task", "TASK", request.tasks, "train, inference or post_train; may be repeated");
    line.path("out", "PATH", request.out,
              "patch, rebase: the package; unpatch: the folder, build/TYPE without it; import-flagscale: the folder "
              "of the packages; history: the file");
    attaches("plugin", "FILE.so", "patch: a plugin that belongs to it; may be repeated");
    attaches("tune", "FILE", "patch: a tune file; may be repeated");
    attaches("policy", "FILE", "patch: a policy; may be repeated");
    attaches("license", "FILE", "patch: a license; may be repeated");
    line.texts("model", "NAME", request.models, "patch: a model that it was tried with; may be repeated");
    line.text("message", "TEXT", request.message, "patch: what was changed");
    line.text("contact", "TEXT", request.contact, "patch: who answers questions");
    line.texts("backend-version", "[NAME=]TEXT", request.backend_versions,
               "patch: what people call COMMIT of this backend; what git describes it as without it; may be "
               "repeated");
    line.flag("no-questions", request.no_questions, "patch: ask for none of these four on the terminal");
    line.number("serial", request.serial, 1, most_serial,
                "higher than that of the package before; patch: 1 without it; rebase: the old one and 1");
    line.flag("include-ignored", request.include_ignored, "patch: also what .gitignore leaves out");
    line.path("key", "NAME.key", request.key, "sign with this key");
    line.flag("unsigned", request.no_key, "sign with none");
    line.paths("recipient", "NAME.pub", request.recipients,
               "only this key can read the changes and files; may be repeated");
    line.path("passphrase-file", "FILE", request.passphrase_file,
              "the passphrase of a secret key is its first line, and nobody is asked");
    line.flag("no-passphrase", request.no_passphrase, "keygen: leave the secret key unencrypted");
    line.paths("pub", "NAME.pub", request.public_keys, "trust this key, and not those a host trusts; may be repeated");
    line.path("trusted", "DIR", request.trusted, "trust the keys of this folder instead");
    line.flag("allow-unsigned", request.allow_unsigned, "take a package that nobody signed");
    line.path("decrypt-key", "NAME.key", request.decrypt_key,
              "the key that it is encrypted for; import-flagscale: FlagScale's private_key.pem");
    line.flag("3way", request.merges, "unpatch: merge with the commit that --backend names");
    line.flag("in-place", request.in_place, "unpatch: change the files of the checkouts");
    line.text("commit", "COMMIT", request.commit, "unpatch: a package for this commit of a backend, not the newest");
    line.flag("allow-older", request.allow_older, "unpatch, install: in the place of a newer package");
    line.path("folder", "DIR", request.folder,
              "where packages are installed, instead of the user's folder for plugins");
    line.flag("system", request.system, "that is the folder for all users, /usr/local/lib/opdock/plugins");
    line.flag("dry-run", request.dry_run, "unpatch, revert, install: do everything but put it in place");
    line.flag("force", request.force, "overwrite files");
    line.format(request.json, "docs/packages.md");
    line.ends("the version of this tool", "this text; with a command, what is about it");
    line.words("words");
    return line;
}

std::string help_text(const std::vector<std::string> &words) {
    Request none;
    if (!words.empty()) {
        (void)cli::find_command(commands(), words.front()); // or what may have been meant
    }
    return cli::help_of(introduction, describe_options(none).description(), examples, commands(), words);
}

} // namespace opdock::plugin_pack
