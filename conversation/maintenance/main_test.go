package maintenance

import (
	"fmt"
	"os"
	"testing"

	"parley/conversation/storetest"
)

// All that is tested here works on the file of a SQLite database.
func TestMain(m *testing.M) {
	if storetest.OnPostgres() {
		fmt.Println("skipped on PostgreSQL: backups and repairs are about SQLite's file")
		return
	}
	os.Exit(m.Run())
}
