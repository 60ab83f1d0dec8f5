// Colours of the style sheet as a canvas takes them.

/** The colour a variable stands for in the theme on the screen, as `rgb(…)`. */
export function colourOf(variable: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${variable})`
  probe.hidden = true
  document.body.append(probe)
  // Reading the variable itself would give light-dark(…), which a canvas does not know.
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

/** The same colour, partly transparent. */
export function faded(colour: string, share: number): string {
  const [red = 128, green = 128, blue = 128] = (colour.match(/[\d.]+/g) ?? []).map(Number)
  return `rgba(${red}, ${green}, ${blue}, ${share})`
}
