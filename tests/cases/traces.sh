# Besides place.sh, for the cases about traces: what a trace says of a file, and what it says is missing.
. "$(dirname "${BASH_SOURCE[0]}")/place.sh"
export XDG_DATA_HOME=$work/data

needs_strace() {
    needs strace
    strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
}
# records TRACE WORD … : records a program in the folder `d`, whose exit code does not matter.
records() {
    (cd "$work/d" && "$weir" record -o "$1" "${@:2}") >"$work/record.log" 2>&1
    [ -s "$1" ] || differs "nothing was recorded: $(tail -n 1 "$work/record.log")"
}
# The size that a trace says a file has at the end.
told() { "$weir" trace tree "$1" --allow-drops 2>/dev/null | awk -v name="$2" '$1 == "f" && $3 == name { print $2 }'; }
# How many calls a trace says are missing, and their names.
missing() { "$weir" trace show "$1" | sed -n 's/^E .*dropped=\([0-9]*\).*/\1/p'; }
lost() { "$weir" trace show "$1" | sed -n 's/^L calls [0-9]* "\([^"]*\)".*/\1/p' | sort -u | tr '\n' ' '; }
# agrees TRACE FILE WHAT: the trace has the file as it is, or says that calls are missing.
agrees() {
    local real size
    real=$(stat -c %s "$work/d/$2") size=$(told "$1" "$2")
    [ "${size:-none}" = "$real" ] || [ "$(missing "$1")" -gt 0 ] ||
        differs "$3: $2 has $real bytes, in the trace ${size:-none}, of which nothing is said to be missing"
}
# equal TRACE FILE WHAT: the trace has the file as it is, and nothing is missing.
equal() {
    local real size
    real=$(stat -c %s "$work/d/$2") size=$(told "$1" "$2")
    [ "${size:-none} $(missing "$1")" = "$real 0" ] ||
        differs "$3: $2 has $real bytes, in the trace ${size:-none}, $(missing "$1") calls missing: $("$weir" trace show "$1" | grep '^L')"
}
mkdir "$work/d"
