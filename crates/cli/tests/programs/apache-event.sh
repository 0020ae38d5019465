# package: apache2
# needs: /usr/sbin/apache2
# what: mpm_event, 200 requests by 10 clients
mkdir -p www; text 2000 >www/a.txt
m=/usr/lib/apache2/modules
cat >a.conf <<C
ServerName x
ServerRoot $PWD
PidFile $PWD/pid
ErrorLog $PWD/error
Listen 127.0.0.1:$PORT
LoadModule mpm_event_module $m/mod_mpm_event.so
LoadModule authz_core_module $m/mod_authz_core.so
User nobody
Group nogroup
StartServers 1
ServerLimit 2
ThreadsPerChild 25
MaxRequestWorkers 50
DocumentRoot $PWD/www
Mutex pthread
C
chmod 755 . www
serve /usr/sbin/apache2 -f "$PWD/a.conf" -DFOREGROUND
until_port "$PORT"
ab -q -n 200 -c 10 "http://127.0.0.1:$PORT/a.txt" | grep -E 'Complete requests|Failed requests|Document Length'
curl -s "http://127.0.0.1:$PORT/a.txt" | md5sum
stop
