package host

import (
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
