# package: openssl
# needs: /usr/bin/openssl
# threads=none
# what: a key, a certificate, a signature, children of speed -multi
run openssl genpkey -algorithm ed25519 -out k.pem
run openssl req -x509 -new -key k.pem -subj /CN=x -out c.pem
echo text >t
run openssl pkeyutl -sign -inkey k.pem -rawin -in t -out s
run openssl pkeyutl -verify -inkey k.pem -rawin -in t -sigfile s
run openssl speed -multi 2 -seconds 1 -bytes 64 sha256 2>/dev/null | grep -c sha256
