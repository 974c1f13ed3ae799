package actorstore_test

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

var ctx = context.Background()

// What helper_test.go has, under the same names.
var (
	must         = testkit.Must
	testID       = actorstore.TestID
	errTest      = actorstore.ErrTest
	smallForks   = actorstore.SmallForks
	clock        = actorstore.Clock
	onEngines    = actorstore.OnEngines
	openStore    = actorstore.OpenStore
	openNear     = actorstore.OpenNear
	openActor    = actorstore.OpenActor
	checkRefused = actorstore.CheckRefused
	problems     = actorstore.Problems
	user         = actorstore.UserName
	put          = actorstore.PutOne
	get          = actorstore.GetString
	words        = actorstore.Words
	chunk        = actorstore.Chunk
	pageOf       = actorstore.PageOf
	writePages   = actorstore.WritePages
	openFar      = actorstore.OpenFar
	readPage     = actorstore.ReadPage
	readCount    = actorstore.ReadCount
	boot         = actorstore.Boot
)

const leaseTTL = actorstore.LeaseTTL

type (
	anywhere  = actorstore.Anywhere
	far       = actorstore.Far
	forgetful = actorstore.Forgetful
	journal   = actorstore.Journal
)
