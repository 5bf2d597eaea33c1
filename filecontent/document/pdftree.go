package document

import (
	"reflect"

	"github.com/ledongthuc/pdf"
)

// pdfPage is a page of a PDF with the resources that it has, or inherits (ISO 32000-1, 7.7.3.4).
type pdfPage struct{ page, resources pdf.Value }

// pageTree collects the pages of a PDF in order, up to maxPages. It does not believe the numbers of
// pages that the nodes say they have.
type pageTree struct {
	pages []pdfPage
	seen  map[uint64]bool // nodes by the number of their object
}

// circular says of a document that reading it would not end.
var circular = &Problem{"the document is broken: its pages form a circle"}

// pagesOf returns the pages of a PDF. The error is a *Problem.
func pagesOf(opened *pdf.Reader) ([]pdfPage, error) {
	tree := pageTree{seen: map[uint64]bool{}}
	if err := tree.add(opened.Trailer().Key("Root").Key("Pages"), pdf.Value{}); err != nil {
		return nil, err
	}
	if len(tree.pages) == 0 {
		return nil, broken
	}
	return tree.pages, nil
}

// add adds the pages of a node, which has those resources unless it has its own. A node that stands
// at two places of the tree is refused: a document of a few of them could have more pages than can
// ever be read.
func (t *pageTree) add(node, resources pdf.Value) error {
	if own := node.Key("Resources"); !own.IsNull() {
		resources = own
	}
	kids := node.Key("Kids")
	if kids.Kind() != pdf.Array {
		if node.Kind() == pdf.Dict && node.Key("Type").Name() != "Pages" {
			t.pages = append(t.pages, pdfPage{node, resources})
		}
		return nil
	}
	number := objectNumber(node)
	if t.seen[number] {
		return circular
	}
	t.seen[number] = true
	for i := range kids.Len() {
		if len(t.pages) == maxPages {
			return nil
		}
		if err := t.add(valueAt(kids, i), resources); err != nil {
			return err
		}
	}
	return nil
}

// valueAt returns an element of an array, null for one that can't be read.
func valueAt(list pdf.Value, i int) (v pdf.Value) {
	defer func() {
		if recover() != nil {
			v = pdf.Value{}
		}
	}()
	return list.Index(i)
}

// objectNumber returns the number of the object that a value is, or is a part of. The library has it,
// and tells it nowhere.
func objectNumber(v pdf.Value) uint64 {
	return reflect.ValueOf(v).FieldByName("ptr").FieldByName("id").Uint()
}
