module raddle-bench-go

go 1.22
