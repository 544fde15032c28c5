package output

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minWrap is the narrowest last column that is worth wrapping.
const minWrap = 20

// gap separates two columns, and indent begins a line that continues a row.
const (
	gap    = "  "
	indent = "    "
)

// Cell is a piece of text with a meaning. The text may come from any node, so a page
// shows the characters in it that a terminal would obey, such as a line's end, as \n.
type Cell struct {
	text   string
	colour string // of a terminal, as an escape sequence; empty: none
	whole  bool   // never wrapped
}

// The escape sequences of terminals.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// Plain returns text without a meaning of its own.
func Plain(text string) Cell { return Cell{text: visible(text)} }

// Good returns text that says that all is well.
func Good(text string) Cell { return Cell{text: visible(text), colour: green} }

// Warn returns text that says what to look at.
func Warn(text string) Cell { return Cell{text: visible(text), colour: yellow} }

// Bad returns text that says what is wrong.
func Bad(text string) Cell { return Cell{text: visible(text), colour: red} }

// Title returns text above other text.
func Title(text string) Cell { return Cell{text: visible(text), colour: bold} }

// Command returns a command for people to copy. A terminal without room for it breaks it
// itself, so that a copy has no line's end in it.
func Command(text string) Cell { return Cell{text: visible(text), colour: bold, whole: true} }

// Row returns cells of plain text.
func Row(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, t := range texts {
		row[i] = Plain(t)
	}
	return row
}

// visible returns text with an escape sequence of Go in the place of each character
// that is not printable.
func visible(text string) string { return visibleExcept(text, "") }

// visibleExcept does so, and keeps the characters of kept.
func visibleExcept(text, kept string) string {
	isOdd := func(r rune) bool {
		return (!unicode.IsPrint(r) || r == utf8.RuneError) && !strings.ContainsRune(kept, r)
	}
	if !strings.ContainsFunc(text, isOdd) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isOdd(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Page is text that people read on a terminal, or in a file.
type Page struct {
	Width int  // columns of the terminal; 0: no limit
	Color bool // the terminal shows colours

	terminal bool // shows the page
	text     bytes.Buffer
}

// Line writes one line, with the cells one after the other.
func (p *Page) Line(cells ...Cell) {
	for _, c := range cells {
		p.cell(c.text, c.colour)
	}
	p.text.WriteByte('\n')
}

// Sentence writes text that goes on in further lines, between words, if it is wider than the
// terminal.
func (p *Page) Sentence(c Cell) { p.last(c, 0) }

// Sentencef writes a sentence of plain text.
func (p *Page) Sentencef(format string, args ...any) { p.Sentence(Plain(fmt.Sprintf(format, args...))) }

// Number returns a number of things, such as "1 peer" or "2 peers".
func Number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Linef writes one line of plain text.
func (p *Page) Linef(format string, args ...any) { p.Line(Plain(fmt.Sprintf(format, args...))) }

// Document writes text as it is, byte for byte. On a terminal it shows the characters that a terminal would obey, and
// ends the line.
func (p *Page) Document(text []byte) {
	if !p.terminal {
		p.text.Write(text)
		return
	}
	_, _ = Safe{&p.text}.Write(text)
	p.text.WriteByte('\n')
}

// Table writes rows below a header, with columns of the same width. A last
// column that is wider than the terminal goes on in further lines. A table
// without a header has nil for it.
func (p *Page) Table(header []Cell, rows ...[]Cell) {
	if header != nil {
		titles := make([]Cell, len(header))
		for i, c := range header {
			titles[i] = Title(c.text)
		}
		rows = append([][]Cell{titles}, rows...)
	}
	widths := columns(rows)
	for _, row := range rows {
		p.row(row, widths)
	}
}

// columns returns the width of each column.
func columns(rows [][]Cell) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

// row writes one row. The last cell has the rest of the line, and as many
// further lines as it needs.
func (p *Page) row(row []Cell, widths []int) {
	at := 0
	for i, c := range row {
		if i == len(row)-1 {
			p.last(c, at)
			return
		}
		pad := widths[i] - utf8.RuneCountInString(c.text)
		p.cell(c.text, c.colour)
		p.text.WriteString(strings.Repeat(" ", pad) + gap)
		at += widths[i] + len(gap)
	}
}

// last writes the last cell of a row, which begins at a column. A cell that has not
// even the room to be wrapped there begins on a line of its own.
func (p *Page) last(c Cell, at int) {
	if c.whole && p.Width > 0 && at+utf8.RuneCountInString(c.text) > p.Width {
		p.trim()
		if text := p.text.Bytes(); len(text) > 0 && text[len(text)-1] != '\n' {
			p.text.WriteByte('\n')
		}
		p.Line(Plain(indent), c)
		return
	}
	if room := p.Width - at; p.Width > 0 && room < minWrap && utf8.RuneCountInString(c.text) > room {
		p.trim()
		at = len(indent)
		p.text.WriteString("\n" + indent)
	}
	for i, line := range p.wrap(c.text, at) {
		if i > 0 {
			p.text.WriteString(strings.Repeat(" ", at))
		}
		p.cell(line, c.colour)
		p.trim()
		p.text.WriteByte('\n')
	}
}

// trim removes the spaces at the end of the text, which an empty last cell
// leaves.
func (p *Page) trim() { p.text.Truncate(len(bytes.TrimRight(p.text.Bytes(), " "))) }

// wrap cuts text into lines that fit between a column and the edge of the
// terminal. Words that are longer than a line stay whole.
func (p *Page) wrap(text string, at int) []string {
	room := p.Width - at
	if p.Width == 0 || room < minWrap {
		return []string{text}
	}
	lines := []string{""}
	for word := range strings.SplitSeq(text, " ") {
		line := &lines[len(lines)-1]
		switch joined := *line + " " + word; {
		case *line == "":
			*line = word
		case utf8.RuneCountInString(joined) <= room:
			*line = joined
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// cell writes text in a colour.
func (p *Page) cell(text, colour string) {
	if !p.Color || colour == "" || text == "" {
		p.text.WriteString(text)
		return
	}
	p.text.WriteString(colour + text + plain)
}
