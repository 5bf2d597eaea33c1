package document

import (
	"errors"
	"slices"

	"github.com/ledongthuc/pdf"
)

// The form XObjects of PDF are drawings that pages, and other forms, draw as a whole: letterheads,
// stamps, and pages that a program has put on a sheet (ISO 32000-1, 8.10).

// maxForms is how deep forms may draw forms.
const maxForms = 16

// scope is where the operators that are read find what they name.
type scope struct {
	resources pdf.Value
	fonts     map[string]*pageFont // fonts that were read, by name
	form      uint64               // number of the form's object; 0 for the page
}

// drawForm reads the text of a form that an operator names. A form that would draw itself is left
// out, and so is one that has no text and was read before: a page may draw it ten thousand times.
func (p *pageText) drawForm(name string) {
	form := p.in().resources.Key("XObject").Key(name)
	if form.Kind() != pdf.Stream || form.Key("Subtype").Name() != "Form" {
		return
	}
	number := objectNumber(form)
	isOpen := slices.ContainsFunc(p.scopes, func(s *scope) bool { return s.form == number })
	if isOpen || len(p.scopes) > maxForms || p.silent[number] {
		return
	}
	before := p.room
	p.readForm(form, number)
	if p.room == before {
		p.silent[number] = true
	}
}

// readForm reads a form, and then goes on where it was drawn. Of a form that is broken, it reads the
// text up to there.
func (p *pageText) readForm(form pdf.Value, number uint64) {
	opened, known := p.forms[number]
	if !known {
		opened = &scope{resources: form.Key("Resources"), fonts: map[string]*pageFont{}, form: number}
		if opened.resources.IsNull() {
			opened.resources = p.in().resources
		}
		p.forms[number] = opened
	}
	now, saved, text, line, depth := p.now, p.saved, p.text, p.line, len(p.scopes)
	defer func() {
		p.now, p.saved, p.text, p.line, p.scopes = now, saved, text, line, p.scopes[:depth]
		if problem := recover(); problem != nil {
			if err, _ := problem.(error); errors.Is(err, errFull) {
				panic(problem)
			}
		}
	}()
	p.scopes, p.saved = append(p.scopes, opened), nil
	if m := form.Key("Matrix"); m.Len() == len(matrix{}) {
		var placed matrix
		for i := range placed {
			placed[i] = m.Index(i).Float64()
		}
		p.now.page = placed.after(p.now.page)
	}
	pdf.Interpret(form, p.do)
}

// in returns the scope of the operators that are read.
func (p *pageText) in() *scope { return p.scopes[len(p.scopes)-1] }
