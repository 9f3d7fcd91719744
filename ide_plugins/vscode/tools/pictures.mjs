// Copies the pictures of docs/ to the walkthrough, and writes dist/README.md. An extension's page in VS Code
// shows pictures from https only: with PICTURES_URL they come from there, else the page names the walkthrough instead.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";

const base = process.env.PICTURES_URL;
mkdirSync("dist/pictures", { recursive: true });
const text = readFileSync("README.md", "utf8");
const page = text.replace(/!\[([^\]]*)\]\(([^)]+\.png)\)\n\n/g, (_, words, path) => {
  copyFileSync(path, `dist/pictures/${basename(path)}`);
  return base ? `![${words}](${new URL(basename(path), base)})\n\n` : "";
});
const where = "Pictures of all views: **Welcome: Open Walkthrough…**, then opstep.";
writeFileSync("dist/README.md", base ? page : page.replace("\n\n1. ", `\n\n${where}\n\n1. `));
