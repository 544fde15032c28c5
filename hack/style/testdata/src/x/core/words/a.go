package words

/* nobody */ // want "name the actor"
func words() []string {
	return []string{"it was mended", "nobody"} // want ": fix$"
}
