# package: nginx-light
# needs: /usr/sbin/nginx
# threads=none
# what: files with sendfile, and a thread pool where the build has one
mkdir -p www logs; text 3000 >www/a.txt
cat >n.conf <<C
daemon off; master_process off; pid $PWD/pid; error_log /dev/null;
events {} http { access_log off; client_body_temp_path $PWD; proxy_temp_path $PWD; fastcgi_temp_path $PWD; uwsgi_temp_path $PWD; scgi_temp_path $PWD;
server { listen 127.0.0.1:$PORT; root $PWD/www; sendfile on; aio threads; } }
C
serve /usr/sbin/nginx -p "$PWD" -c "$PWD/n.conf"
until_port "$PORT"
for i in $(seq 20); do curl -s "http://127.0.0.1:$PORT/a.txt" | md5sum; done
curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$PORT/none"
stop
