/** The HTML of the page before its script runs. */
export const SHELL = `
<header>
  <select id="program" aria-label="Program"></select>
  <input id="find" type="search" placeholder="Find op ( / )" aria-label="Find an op by name or type">
  <span id="found" role="status"></span>
  <label>Colour by <select id="colour" title="By statistics of each op from a tap (C)"><option value="">–</option></select></label>
  <span id="legend" hidden></span>
  <span class="space"></span>
  <span id="standing" role="status"></span>
  <button id="fold" title="Fold or unfold all blocks">Fold blocks</button>
  <button id="fit" title="Show all of it (0)">Fit</button>
  <button id="follow" aria-pressed="true" title="Keep the current op in view (F)">Follow</button>
</header>
<svg id="graph" tabindex="0" role="application"
  aria-label="Graph of the program. Arrow keys go from op to op, Enter to its Python line, B sets a breakpoint, C chooses colours."></svg>
<footer id="details" aria-live="polite"></footer>`;
