#include "options.hpp"

#include "cli/arguments.hpp"
#include "cli/format.hpp"

namespace opdock::plugin_pack {
namespace {

namespace po = boost::program_options;

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

const std::vector<Command> &commands() {
    static const std::vector<Command> all = {
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

po::options_description describe_options() {
    po::options_description options("Options", 80, 56);
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    options.add_options()                                                                                         //
        ("backend", texts("BACKEND"), "[NAME=]DIR: a repository; patch: with @COMMIT behind it; may be repeated") //
        ("device-type", text("TYPE"), "VENDOR_MODEL, such as Acme_A1")                                            //
        ("task", texts("TASK"), "train, inference or post_train; may be repeated")                                //
        ("out", text("PATH"),
         "patch, rebase: the package; unpatch: the folder, build/TYPE without it; import-flagscale: the folder of the "
         "packages; history: the file")                                                     //
        ("plugin", texts("FILE.so"), "patch: a plugin that belongs to it; may be repeated") //
        ("tune", texts("FILE"), "patch: a tune file; may be repeated")                      //
        ("policy", texts("FILE"), "patch: a policy; may be repeated")                       //
        ("license", texts("FILE"), "patch: a license; may be repeated")                     //
        ("model", texts("NAME"), "patch: a model that it was tried with; may be repeated")  //
        ("message", text("TEXT"), "patch: what was changed")                                //
        ("contact", text("TEXT"), "patch: who answers questions")                           //
        ("backend-version", texts("[NAME=]TEXT"),
         "patch: what people call COMMIT of this backend; what git describes it as without it; may be repeated") //
        ("no-questions", "patch: ask for none of these four on the terminal")                                    //
        ("serial", text("N"),
         "higher than that of the package before; patch: 1 without it; rebase: the old one and 1")                 //
        ("include-ignored", "patch: also what .gitignore leaves out")                                              //
        ("key", text("NAME.key"), "sign with this key")                                                            //
        ("unsigned", "sign with none")                                                                             //
        ("recipient", texts("NAME.pub"), "only this key can read the changes and files; may be repeated")          //
        ("passphrase-file", text("FILE"), "the passphrase of a secret key is its first line, and nobody is asked") //
        ("no-passphrase", "keygen: leave the secret key unencrypted")                                              //
        ("pub", texts("NAME.pub"), "trust this key, and not those a host trusts; may be repeated")                 //
        ("trusted", text("DIR"), "trust the keys of this folder instead")                                          //
        ("allow-unsigned", "take a package that nobody signed")                                                    //
        ("decrypt-key", text("NAME.key"),
         "the key that it is encrypted for; import-flagscale: FlagScale's private_key.pem")               //
        ("3way", "unpatch: merge with the commit that --backend names")                                   //
        ("in-place", "unpatch: change the files of the checkouts")                                        //
        ("commit", text("COMMIT"), "unpatch: a package for this commit of a backend, not the newest")     //
        ("allow-older", "unpatch, install: in the place of a newer package")                              //
        ("folder", text("DIR"), "where packages are installed, instead of the user's folder for plugins") //
        ("system", "that is the folder for all users, /usr/local/lib/opdock/plugins")                     //
        ("dry-run", "unpatch, revert, install: do everything but put it in place")                        //
        ("force", "overwrite files");
    cli::add_format(options, "docs/packages.md");
    options.add_options()                       //
        ("version", "the version of this tool") //
        ("help,h", "this text; with a command, what is about it");
    return options;
}

std::string help_text(const std::vector<std::string> &words) {
    if (!words.empty()) {
        (void)cli::find_command(commands(), words.front()); // or what may have been meant
    }
    return cli::help_of(introduction, describe_options(), examples, commands(), words);
}

} // namespace opdock::plugin_pack
