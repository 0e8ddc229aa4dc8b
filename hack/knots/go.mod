module github.com/fescue-dev/fescue/hack/knots

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	golang.org/x/tools v0.51.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
