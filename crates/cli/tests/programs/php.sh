# package: php-cli
# needs: /usr/bin/php
# threads=none
# what: sorts and forks
run php -r '$a = range(1, 5000); mt_srand(3); shuffle($a); sort($a); echo md5(implode(",", $a)), "\n"; echo shell_exec("echo child");'
