#!/bin/sh
# Published trace formats are known by their first line, plain and packed; others are described by their columns; messages have no
# raw bytes.
#   tests/cases/19-trace-formats.sh WEIR
set -eu
case=19-trace-formats
weir=$(realpath "${1:?usage: $0 WEIR}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >alibaba.txt <<'T'
7,R,1048576,8192,1577808000000100
7,W,2097152,4096,1577808000000900
T
cat >tencent.txt <<'T'
1538323200,2048,16,0,88
1538323201,4096,8,1,88
T
cat >spc.txt <<'T'
0,2048,8192,r,0.000100
0,4096,4096,W,0.000900
T
cat >fiu.txt <<'T'
100000 31 kjournald 2048 16 R 8 1 0123
900000 31 kjournald 4096 8 W 8 1 4567
T
cat >systor17.txt <<'T'
Timestamp,Response,IOType,LUN,Offset,Size
1455592426.000100000,0.000279000,R,3,1048576,8192
1455592426.000900000,,W,3,2097152,4096
T
cat >msr.txt <<'T'
128166372000001000,srv,1,Read,1048576,8192,90
128166372000009000,srv,1,Write,2097152,4096,90
T
printf '0 1 2048 16 1\n900000 2 4096 8 0\n' >several.txt
printf '5;read;2;2\n9;write;3;1\n' >own.txt
value() { grep -o "\"$1\": *\"*[a-z0-9]*" out.json | grep -o '[a-z0-9]*$' | head -1; }
replay() { "$weir" sim flash "$@" --json >out.json 2>err; }
check() { # format, file, options
    format=$1 file=$2
    shift 2
    replay "$file" "$@" || { echo "$case: $file: $(tail -2 err)"; exit 1; }
    [ "$(value format) $(value requests)" = "$format 2" ] ||
        { echo "$case: $file is $(value format) with $(value requests) requests in place of $format with 2"; exit 1; }
}
for format in alibaba tencent spc fiu systor17 msr; do
    check $format $format.txt
    gzip -k $format.txt
    check $format $format.txt.gz
    if command -v zstd >/dev/null; then zstd -q $format.txt && check $format $format.txt.zst; fi
done
if replay several.txt; then echo "$case: two devices are taken for one"; exit 1; fi
grep -q -- "--devices merge" err || { echo "$case: no remedy: $(cat err)"; exit 1; }
check mqsim several.txt --devices merge
check mqsim several.txt --devices overlay
check columns own.txt --columns time:ms,op,offset:4096,size:4096
head -c 300 /bin/sh | gzip >binary.gz
for file in binary.gz /bin/sh; do
    if replay $file; then echo "$case: $file is a trace"; exit 1; fi
    if LC_ALL=C grep -q '[^[:print:][:space:]]' err; then echo "$case: raw bytes in the message about $file"; exit 1; fi
done
printf '128166372000001000,srv,1,Read,1048576,8192,90\n\001\377broken\n' >bad.txt
if replay bad.txt; then echo "$case: a broken line is taken"; exit 1; fi
grep -q "bad.txt: line 2: " err || { echo "$case: no file and line: $(cat err)"; exit 1; }
if LC_ALL=C grep -q '[^[:print:][:space:]]' err; then echo "$case: raw bytes in the message about a line"; exit 1; fi
echo "$case: ok"
