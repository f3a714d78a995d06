module none

go 1.24
