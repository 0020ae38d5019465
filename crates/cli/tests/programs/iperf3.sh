# package: iperf3
# needs: /usr/bin/iperf3
# threads=none
# what: client and server
serve iperf3 -s -p "$PORT"
until_port "$PORT"
sleep 0.5
run iperf3 -c 127.0.0.1 -p "$PORT" -n 4M -P 2 >out
echo "status $?"
stop INT >/dev/null || true
