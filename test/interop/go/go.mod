module mandate/test/interop/go

go 1.26.0

// The newest release of its line: on a cluster of transaction.version 2 it speaks that version, as the other Go port does, and it
// is the first that ends a transaction while the coordinator still completes the one before without losing its producer id.
require github.com/twmb/franz-go v1.22.3

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)
