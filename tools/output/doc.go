// Package output prints the results of flannelctl: as text for people, and as
// JSON or YAML for programs.
//
// A result is a plain value with JSON tags, and a Text method that writes the
// same facts to a [Page]. [Printer.Print] chooses between the two:
//
//	func (l list) Text(p *output.Page) {
//		p.Table(output.Row("SUBNET", "OWNER"), rows...)
//	}
//
// A page knows the width of the terminal and whether it shows colours. A cell
// says what it means ([Good], [Warn], [Bad]) and never how that looks.
package output
