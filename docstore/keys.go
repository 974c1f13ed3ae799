package docstore

// Key layout:
//
//	key                                 value
//	meta                                what the store is: meta as JSON
//	entity:<path>                       kind and label, two elements
//	props:<document>                    properties, a dictionary element
//	children:<container>\0<name>        nothing: a child
//	config:<category or index>          label and expression, two elements
//	catcfg:<catalogue>                  label and expression, two elements
//	typeidx:<label>\0<document>         nothing: a document of the type
//	cat:<category>:members\0<document>  nothing: a member
//	catl:<catalogue>:group:<group>\0<document>
//	                                    nothing: a member of a group
//	catl:<catalogue>:keys               of an imported catalogue that nothing has changed: its groups, an array
//	idx:<index>:doc:<document>          segment u32be, number u16be of a document in a text index; round and ffff while
//	                                    it is pending
//	idx:<index>:round                   first round with pending documents, current round, both u32be
//	idx:<index>:new\0<round u32be><document>
//	                                    normalised text of a pending document
//	idx:<index>:tri:<two characters>\0<segment u32be>
//	                                    which documents of the segment have the grams that begin so, see package text;
//	                                    more than 90,000 bytes of them go on in …\0<u32be>
//	idx:<index>:seg\0<segment u32be>    the documents of a segment by their numbers, an array
//	idx:<index>:txt\0<segment u32be><number u16be>
//	                                    normalised text
//	idx:<index>:out\0<segment u32be><number u16be>
//	                                    nothing: the document has left the segment
//	reg:<label>\0<path>                 a category, catalogue or index of the type: registration as JSON
//	build:<path>                        how far a build has come: Progress as JSON
//
// All of them lie behind S, the packed tuple ("docs", 1, name of the store). Those from entity: to idx:…:doc: are the
// keys that Implexus documents; elements are its, see package element. It keeps a set in one array, below the key that ends here
// before \0. Such an array may be there, too, in place of rows (Options.Compat), or beside them while it is taken
// apart; see sets.go. A value of more than 90,000 bytes lies in pieces, <key>\0<u32be>.
//
// In the keys, : is written ~3a in paths, and : ~ NUL are ~3a ~7e ~00 in labels and texts of groups; ~ and NUL in
// grams. A category, catalogue or index that was built anew has ~g and a number behind its path in cat:, catl:
// and idx:. The group of a value that is not a text begins with ~, see Path.

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/tuple"
)

const (
	rowsName    = "docs"
	rowsVersion = 1

	metaKey = "meta"
	groups  = ":group:"
)

var (
	pathEscapes   = strings.NewReplacer(":", "~3a")
	pathUnescapes = strings.NewReplacer("~3a", ":")
	textEscapes   = strings.NewReplacer("~", "~7e", ":", "~3a", "\x00", "~00")
	textUnescapes = strings.NewReplacer("~7e", "~", "~3a", ":", "~00", "\x00")
)

// subspace returns where the store of a name lies.
func subspace(name string) tuple.Subspace {
	return tuple.NewSubspace(tuple.Tuple{rowsName, rowsVersion, name})
}

// escape returns a path as it stands in keys.
func escape(path string) string { return pathEscapes.Replace(path) }

func entityKey(p Path) string   { return "entity:" + escape(string(p)) }
func propsKey(p Path) string    { return "props:" + escape(string(p)) }
func childrenKey(p Path) string { return "children:" + escape(string(p)) }
func buildKey(p Path) string    { return "build:" + escape(string(p)) }
func typeKey(label string) string {
	return "typeidx:" + textEscapes.Replace(label)
}

// registryKey returns the key of the set of what is derived from documents of a type; its members are paths.
func registryKey(label string) string { return "reg:" + textEscapes.Replace(label) }

// configKey returns the key of label and expression.
func configKey(k Kind, p Path) string {
	if k == KindCatalogue {
		return "catcfg:" + escape(string(p))
	}
	return "config:" + escape(string(p))
}

// base returns what all keys of a generation begin with of a category, catalogue or index.
func base(k Kind, p Path, generation int) string {
	prefix := map[Kind]string{KindCategory: "cat:", KindCatalogue: "catl:", KindIndex: "idx:"}[k]
	b := prefix + escape(string(p))
	if generation > 0 {
		b += "~g" + strconv.Itoa(generation)
	}
	return b
}

// segmentKey returns the key of a row of a segment, and documentKey that of one of its documents.
func segmentKey(base, part string, segment uint32) string {
	return string(binary.BigEndian.AppendUint32([]byte(base+part+"\x00"), segment))
}

func documentKey(base, part string, at location) string {
	return string(binary.BigEndian.AppendUint16([]byte(segmentKey(base, part, at.segment)), at.number))
}

// A location is where a document is: its number in a segment, or waiting in a round. Both count from 1.
type location struct {
	segment uint32
	number  uint16
}

// waiting is the number of a pending document.
const waiting = 0xffff

// append appends a location as it is stored, and parseLocation reads it.
func (at location) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(dst, at.segment), at.number)
}

func parseLocation(b []byte) (at location, ok bool) {
	if len(b) != 6 {
		return at, false
	}
	return location{binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:])}, true
}
