#include "app/analyze/html_style.h"

namespace tessera::app::analyze {

// After Okabe and Ito, darkened on white and lightened on black.
const std::string_view kPageStyle = R"(:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b1f24; --quiet: #57606a; --rule: #d8dee4; --grid: #e7ebef;
  --s0: #0072b2; --s1: #c95200; --s2: #008560; --s3: #b0578c; --s4: #8a6a00; --s5: #4a5560;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1317; --card: #181d23; --text: #e8ecf0; --quiet: #a3adb8; --rule: #363e47; --grid: #272e36;
    --s0: #56b4e9; --s1: #f08a3c; --s2: #2fc398; --s3: #e08fc0; --s4: #e6cf3f; --s5: #b4bec9;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif;
}
main { max-width: 1320px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 20px; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 44px 0 10px; padding-top: 14px; border-top: 1px solid var(--rule); }
.notes { margin: 0 0 18px; padding-left: 1.2em; max-width: 68em; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 18px; margin: 18px 0; }
figure { margin: 0; padding: 16px 18px 8px; background: var(--card); border: 1px solid var(--rule); border-radius: 10px; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 10px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 460px; height: auto; max-width: 820px; margin: 0 auto; font-size: 13px; }
svg text { fill: var(--text); }
svg .tick { fill: var(--quiet); }
svg .number, svg .tick { font-variant-numeric: tabular-nums; }
.grid { stroke: var(--grid); stroke-width: 1; }
.axis { stroke: var(--quiet); stroke-width: 1; }
.reference { stroke: var(--text); stroke-width: 1.4; stroke-dasharray: 5 4; }
.change { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 2 3; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.spread { stroke-width: 1.4; }
.over-bar { stroke: var(--text); }
.marker { stroke: var(--card); stroke-width: 1; }
.s0 { --series: var(--s0); } .s1 { --series: var(--s1); } .s2 { --series: var(--s2); }
.s3 { --series: var(--s3); } .s4 { --series: var(--s4); } .s5 { --series: var(--s5); }
.curve, .spread:not(.over-bar) { stroke: var(--series); }
.bar, .marker { fill: var(--series); }
table { border-collapse: collapse; width: max-content; margin: 18px 0; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; font-size: 1rem; padding-bottom: 6px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { text-align: left; padding: 4px 12px; border-bottom: 1px solid var(--rule); vertical-align: top; max-width: 30em; }
td.long { overflow-wrap: anywhere; }
th { color: var(--quiet); font-weight: 600; border-bottom: 2px solid var(--rule); vertical-align: bottom; }
th.number, td.number { text-align: right; white-space: nowrap; }
tbody tr:hover { background: var(--card); }
small { color: var(--quiet); font-size: 0.8125rem; }
@media print {
  :root {
    color-scheme: light;
    --page: #ffffff; --card: #ffffff; --text: #000000; --quiet: #444444; --rule: #bbbbbb; --grid: #dddddd;
    --s0: #0072b2; --s1: #c95200; --s2: #008560; --s3: #b0578c; --s4: #8a6a00; --s5: #4a5560;
  }
  @page { margin: 14mm; }
  body { font-size: 10pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  h2, caption { break-after: avoid; }
  .charts { display: block; }
  figure { break-inside: avoid; margin: 0 0 10px; padding: 8px 10px 4px; border-radius: 0; }
  svg { max-width: 125mm; min-width: 0; }
  .scroll { overflow: visible; }
  table { width: auto; font-size: 7.5pt; }
  th, td { padding: 2px 5px; }
  th.number, td.number { white-space: normal; }
  small { font-size: 7pt; white-space: nowrap; }
  tr { break-inside: avoid; }
}
)";

}  // namespace tessera::app::analyze
