# package: libpython3.11-testsuite
# needs: /usr/bin/python3 /usr/lib/python3.11/test/test_threading.py
# seconds=500
# what: Python's own test_threading
run /usr/bin/python3 -m test -q test_threading 2>err | grep -E '^(Result|Tests result|.* failed|.* OK|test .* failed)' | sort -u | grep -v -i duration
echo "status ${PIPESTATUS[0]}"
grep ^{ err >&2 || true
