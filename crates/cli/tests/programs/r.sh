# package: r-base-core
# needs: /usr/bin/Rscript
# what: a product of matrices, forked workers
cat >t.R <<'R'
library(parallel)
print(sum(unlist(mclapply(1:20, function(i) i * i, mc.cores = 3))))
a <- matrix(1:250000 / 1e5, 500)
print(sum(a %*% a))
print(system("echo child", intern = TRUE))
R
run Rscript t.R
