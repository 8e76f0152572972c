# Completes options and commands of one of opdock's tools in fish, like opdock.bash in bash; the file is installed once
# per tool, under the tool's name.

set -l tool (basename (status filename) .fish)
complete -c $tool -n 'string match -q -- "-*" (commandline -ct)' \
    -a "($tool --help 2>/dev/null | string replace -rf '^  (?:-[a-z] \[ )?(--[a-z0-9][a-z0-9-]*).*' '\$1')"
complete -c $tool -n 'test (count (commandline -opc)) -eq 1' \
    -a "($tool --help 2>/dev/null | string replace -rf '^(?:Usage:| {6}) $tool ([a-z][a-z-]*)(?: .*|)\$' '\$1')"
