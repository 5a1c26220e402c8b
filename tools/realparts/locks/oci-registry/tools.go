//go:build tools

// Package pins names the commands that are built, so that go.mod keeps them.
package pins

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
)
