// A stand-in for the module `vscode`: the parts that the unit tests need; the tests set its state.

export const state = {
  settings: {} as Record<string, string>,
  errors: [] as string[],
  activeFile: undefined as { languageId: string; path: string } | undefined,
};

export const Uri = { file: (fsPath: string) => ({ scheme: "file", fsPath }) };

export const workspace = {
  workspaceFolders: [{ uri: { fsPath: "/home/me/project" } }],
  getWorkspaceFolder: () => undefined,
  getConfiguration: (section: string) => ({
    get: (key: string) => state.settings[`${section}.${key}`] ?? "",
  }),
};

export const window = {
  get activeTextEditor() {
    const file = state.activeFile;
    return file && { document: { languageId: file.languageId, uri: Uri.file(file.path) } };
  },
  showErrorMessage: async (message: string): Promise<undefined> => {
    state.errors.push(message);
  },
};

export const extensions = { getExtension: (): undefined => undefined };
export const env = { clipboard: { writeText: async (): Promise<void> => {} } };
export const debug = {};
