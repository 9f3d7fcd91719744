// Writes dist/licences.txt: the licences of the packages that are bundled into the extension.
import { readFileSync, writeFileSync } from "node:fs";

const texts = ["@dagrejs/dagre", "@dagrejs/graphlib"].map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync("dist/licences.txt", texts.join("\n\n"));
