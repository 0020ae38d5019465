# package: mosquitto mosquitto-clients
# needs: /usr/sbin/mosquitto /usr/bin/mosquitto_sub
# threads=none
# what: 100 messages for a subscriber who comes back
printf 'listener %s 127.0.0.1\nallow_anonymous true\nuser nobody\n' "$PORT" >m.conf
serve /usr/sbin/mosquitto -c m.conf
until_port "$PORT"
mosquitto_sub -p "$PORT" -t t -q 1 -i s -c -E
seq 100 | mosquitto_pub -p "$PORT" -t t -q 1 -l
mosquitto_sub -p "$PORT" -t t -q 1 -i s -c -C 100
stop
