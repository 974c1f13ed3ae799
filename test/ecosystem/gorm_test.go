//go:build gorm

package ecosystem

import (
	"context"
	"fmt"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/greenroomdb/greenroom/vfs"
)

// An author has books.
type author struct {
	ID    uint
	Name  string
	Books []book
}

type book struct {
	ID       uint
	Title    string
	AuthorID uint
}

// orm returns GORM on a pool, or in the transaction of an Update, which alone begins and ends
// that: GORM must not begin one of its own for each change.
func orm(conn gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(sqlite.Dialector{Conn: conn}, &gorm.Config{SkipDefaultTransaction: true, Logger: logger.Discard})
}

// GORM works on the pool, and in an Update.
func Example_gorm() {
	ctx := context.Background()
	_, db, closeAll, err := openMemory(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer closeAll()
	pool, err := orm(db)
	if err != nil {
		panic(err)
	}
	if err := pool.AutoMigrate(&author{}, &book{}); err != nil {
		panic(err)
	}
	err = db.Update(ctx, func(tx *vfs.Tx) error {
		g, err := orm(tx)
		if err != nil {
			return err
		}
		return g.Create(&author{Name: "Ada", Books: []book{{Title: "Notes"}, {Title: "Letters"}}}).Error
	})
	if err != nil {
		panic(err)
	}
	var found author
	if err := pool.Preload("Books").First(&found, "name = ?", "Ada").Error; err != nil {
		panic(err)
	}
	fmt.Println(found.Name, len(found.Books))
	// Output: Ada 2
}
