#compdef plugin-bench plugin-bisect plugin-check plugin-ls plugin-pack plugin-run plugin-sign plugin-tune
# Completes options, commands and files of opdock's tools in zsh, like opdock.bash in bash.

_opdock() {
    local help
    help=$($words[1] --help 2>/dev/null) || return
    if [[ $words[CURRENT] == -* ]]; then
        compadd -- ${(f)"$(sed -n 's/^  \(-[a-z] \[ \)\{0,1\}\(--[a-z0-9][a-z0-9-]*\).*/\2/p' <<<$help)"}
        return
    fi
    if ((CURRENT == 2)); then
        compadd -- ${(f)"$(sed -n "s/^[U ][s ][a ][g ][e ][: ] ${words[1]:t} \([a-z][a-z-]*\)\( .*\)\{0,1\}\$/\1/p" <<<$help)"}
    fi
    _files
}

_opdock "$@"
