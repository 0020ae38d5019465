# package: git
# needs: /usr/bin/git
# ci
# what: a repository repacked and searched with 4 threads
export HOME=$PWD GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git init -q r 2>/dev/null; cd r; git config user.email a@b; git config user.name a
for i in $(seq 60); do text $((i * 20)) >"f$i"; done
git add .; git commit -q -m one; for i in $(seq 60); do echo more >>"f$i"; done; git commit -q -a -m two
run git -c pack.threads=4 repack -q -a -d -f
run git -c grep.threads=4 grep -c more | md5sum
run git fsck --full 2>&1 | grep -v '^{' | tail -1
run git -c index.threads=4 -c core.preloadIndex=true status --short | wc -l
git rev-parse HEAD
