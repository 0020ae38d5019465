# package: python3-numpy python3-pytest python3-hypothesis
# needs: /usr/bin/python3 /usr/lib/python3/dist-packages/numpy /usr/lib/python3/dist-packages/pytest /usr/lib/python3/dist-packages/hypothesis
# seconds=400
# what: a part of numpy's own tests
run /usr/bin/python3 -m pytest -q -p no:cacheprovider --pyargs numpy.fft numpy.linalg.tests.test_linalg numpy.core.tests.test_indexing | tail -1 | sed 's/ in .*//'
