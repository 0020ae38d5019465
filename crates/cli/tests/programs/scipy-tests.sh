# package: python3-scipy python3-pytest python3-hypothesis
# needs: /usr/bin/python3 /usr/lib/python3/dist-packages/scipy /usr/lib/python3/dist-packages/pytest /usr/lib/python3/dist-packages/hypothesis
# seconds=400
# what: a part of scipy's own tests, with worker threads
run /usr/bin/python3 -m pytest -q -p no:cacheprovider --pyargs scipy.fft.tests.test_multithreading scipy.fft.tests.test_helper scipy.spatial.tests.test_kdtree | tail -1 | sed 's/ in .*//'
