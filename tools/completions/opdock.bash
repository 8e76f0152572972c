# Completes options, commands and files of opdock's tools in bash. They are read from the output of --help, so that
# they match the installed version of the tool.

_opdock() {
    local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} name=${COMP_WORDS[0]##*/} help words=
    help=$("$tool" --help 2>/dev/null) || return
    if [[ $word == -* ]]; then
        words=$(sed -n 's/^  \(-[a-z] \[ \)\{0,1\}\(--[a-z0-9][a-z0-9-]*\).*/\2/p' <<<"$help")
    elif ((COMP_CWORD == 1)); then
        words=$(sed -n "s/^[U ][s ][a ][g ][e ][: ] $name \([a-z][a-z-]*\)\( .*\)\{0,1\}\$/\1/p" <<<"$help")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _opdock plugin-bench plugin-bisect plugin-check plugin-ls plugin-pack plugin-run plugin-sign plugin-tune
