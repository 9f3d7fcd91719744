"""The protocol's types. Generated from its published schema by tools/gen_dap_types.py.

A request's arguments are `<Request>Arguments`; what is in a response's or an event's body is
`<Request>ResponseBody` and `<Name>EventBody`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class ErrorResponseBody(TypedDict):
    error: NotRequired[Message]


class CancelArguments(TypedDict):
    requestId: NotRequired[int]
    progressId: NotRequired[str]


class StoppedEventBody(TypedDict):
    reason: str
    description: NotRequired[str]
    threadId: NotRequired[int]
    preserveFocusHint: NotRequired[bool]
    text: NotRequired[str]
    allThreadsStopped: NotRequired[bool]
    hitBreakpointIds: NotRequired[list[int]]


class ContinuedEventBody(TypedDict):
    threadId: int
    allThreadsContinued: NotRequired[bool]


class ExitedEventBody(TypedDict):
    exitCode: int


class TerminatedEventBody(TypedDict):
    restart: NotRequired[Any]


class ThreadEventBody(TypedDict):
    reason: str
    threadId: int


class OutputEventBody(TypedDict):
    category: NotRequired[str]
    output: str
    group: NotRequired[Literal["start", "startCollapsed", "end"]]
    variablesReference: NotRequired[int]
    source: NotRequired[Source]
    line: NotRequired[int]
    column: NotRequired[int]
    data: NotRequired[Any]


class BreakpointEventBody(TypedDict):
    reason: str
    breakpoint: Breakpoint


class ModuleEventBody(TypedDict):
    reason: Literal["new", "changed", "removed"]
    module: Module


class LoadedSourceEventBody(TypedDict):
    reason: Literal["new", "changed", "removed"]
    source: Source


class ProcessEventBody(TypedDict):
    name: str
    systemProcessId: NotRequired[int]
    isLocalProcess: NotRequired[bool]
    startMethod: NotRequired[Literal["launch", "attach", "attachForSuspendedLaunch"]]
    pointerSize: NotRequired[int]


class CapabilitiesEventBody(TypedDict):
    capabilities: Capabilities


class ProgressStartEventBody(TypedDict):
    progressId: str
    title: str
    requestId: NotRequired[int]
    cancellable: NotRequired[bool]
    message: NotRequired[str]
    percentage: NotRequired[float]


class ProgressUpdateEventBody(TypedDict):
    progressId: str
    message: NotRequired[str]
    percentage: NotRequired[float]


class ProgressEndEventBody(TypedDict):
    progressId: str
    message: NotRequired[str]


class InvalidatedEventBody(TypedDict):
    areas: NotRequired[list[InvalidatedAreas]]
    threadId: NotRequired[int]
    stackFrameId: NotRequired[int]


class MemoryEventBody(TypedDict):
    memoryReference: str
    offset: int
    count: int


class RunInTerminalRequestArguments(TypedDict):
    kind: NotRequired[Literal["integrated", "external"]]
    title: NotRequired[str]
    cwd: str
    args: list[str]
    env: NotRequired[dict[str, str | None]]
    argsCanBeInterpretedByShell: NotRequired[bool]


class RunInTerminalResponseBody(TypedDict):
    processId: NotRequired[int]
    shellProcessId: NotRequired[int]


class StartDebuggingRequestArguments(TypedDict):
    configuration: dict[str, Any]
    request: Literal["launch", "attach"]


class InitializeRequestArguments(TypedDict):
    clientID: NotRequired[str]
    clientName: NotRequired[str]
    adapterID: str
    locale: NotRequired[str]
    linesStartAt1: NotRequired[bool]
    columnsStartAt1: NotRequired[bool]
    pathFormat: NotRequired[str]
    supportsVariableType: NotRequired[bool]
    supportsVariablePaging: NotRequired[bool]
    supportsRunInTerminalRequest: NotRequired[bool]
    supportsMemoryReferences: NotRequired[bool]
    supportsProgressReporting: NotRequired[bool]
    supportsInvalidatedEvent: NotRequired[bool]
    supportsMemoryEvent: NotRequired[bool]
    supportsArgsCanBeInterpretedByShell: NotRequired[bool]
    supportsStartDebuggingRequest: NotRequired[bool]


ConfigurationDoneArguments = dict[str, Any]


class LaunchRequestArguments(TypedDict):
    noDebug: NotRequired[bool]


AttachRequestArguments = dict[str, Any]


class RestartArguments(TypedDict):
    arguments: NotRequired[LaunchRequestArguments | AttachRequestArguments]


class DisconnectArguments(TypedDict):
    restart: NotRequired[bool]
    terminateDebuggee: NotRequired[bool]
    suspendDebuggee: NotRequired[bool]


class TerminateArguments(TypedDict):
    restart: NotRequired[bool]


class BreakpointLocationsArguments(TypedDict):
    source: Source
    line: int
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]


class BreakpointLocationsResponseBody(TypedDict):
    breakpoints: list[BreakpointLocation]


class SetBreakpointsArguments(TypedDict):
    source: Source
    breakpoints: NotRequired[list[SourceBreakpoint]]
    lines: NotRequired[list[int]]
    sourceModified: NotRequired[bool]


class SetBreakpointsResponseBody(TypedDict):
    breakpoints: list[Breakpoint]


class SetFunctionBreakpointsArguments(TypedDict):
    breakpoints: list[FunctionBreakpoint]


class SetFunctionBreakpointsResponseBody(TypedDict):
    breakpoints: list[Breakpoint]


class SetExceptionBreakpointsArguments(TypedDict):
    filters: list[str]
    filterOptions: NotRequired[list[ExceptionFilterOptions]]
    exceptionOptions: NotRequired[list[ExceptionOptions]]


class SetExceptionBreakpointsResponseBody(TypedDict):
    breakpoints: NotRequired[list[Breakpoint]]


class DataBreakpointInfoArguments(TypedDict):
    variablesReference: NotRequired[int]
    name: str
    frameId: NotRequired[int]


class DataBreakpointInfoResponseBody(TypedDict):
    dataId: str | None
    description: str
    accessTypes: NotRequired[list[DataBreakpointAccessType]]
    canPersist: NotRequired[bool]


class SetDataBreakpointsArguments(TypedDict):
    breakpoints: list[DataBreakpoint]


class SetDataBreakpointsResponseBody(TypedDict):
    breakpoints: list[Breakpoint]


class SetInstructionBreakpointsArguments(TypedDict):
    breakpoints: list[InstructionBreakpoint]


class SetInstructionBreakpointsResponseBody(TypedDict):
    breakpoints: list[Breakpoint]


class ContinueArguments(TypedDict):
    threadId: int
    singleThread: NotRequired[bool]


class ContinueResponseBody(TypedDict):
    allThreadsContinued: NotRequired[bool]


class NextArguments(TypedDict):
    threadId: int
    singleThread: NotRequired[bool]
    granularity: NotRequired[SteppingGranularity]


class StepInArguments(TypedDict):
    threadId: int
    singleThread: NotRequired[bool]
    targetId: NotRequired[int]
    granularity: NotRequired[SteppingGranularity]


class StepOutArguments(TypedDict):
    threadId: int
    singleThread: NotRequired[bool]
    granularity: NotRequired[SteppingGranularity]


class StepBackArguments(TypedDict):
    threadId: int
    singleThread: NotRequired[bool]
    granularity: NotRequired[SteppingGranularity]


class ReverseContinueArguments(TypedDict):
    threadId: int
    singleThread: NotRequired[bool]


class RestartFrameArguments(TypedDict):
    frameId: int


class GotoArguments(TypedDict):
    threadId: int
    targetId: int


class PauseArguments(TypedDict):
    threadId: int


class StackTraceArguments(TypedDict):
    threadId: int
    startFrame: NotRequired[int]
    levels: NotRequired[int]
    format: NotRequired[StackFrameFormat]


class StackTraceResponseBody(TypedDict):
    stackFrames: list[StackFrame]
    totalFrames: NotRequired[int]


class ScopesArguments(TypedDict):
    frameId: int


class ScopesResponseBody(TypedDict):
    scopes: list[Scope]


class VariablesArguments(TypedDict):
    variablesReference: int
    filter: NotRequired[Literal["indexed", "named"]]
    start: NotRequired[int]
    count: NotRequired[int]
    format: NotRequired[ValueFormat]


class VariablesResponseBody(TypedDict):
    variables: list[Variable]


class SetVariableArguments(TypedDict):
    variablesReference: int
    name: str
    value: str
    format: NotRequired[ValueFormat]


class SetVariableResponseBody(TypedDict):
    value: str
    type: NotRequired[str]
    variablesReference: NotRequired[int]
    namedVariables: NotRequired[int]
    indexedVariables: NotRequired[int]
    memoryReference: NotRequired[str]


class SourceArguments(TypedDict):
    source: NotRequired[Source]
    sourceReference: int


class SourceResponseBody(TypedDict):
    content: str
    mimeType: NotRequired[str]


class ThreadsResponseBody(TypedDict):
    threads: list[Thread]


class TerminateThreadsArguments(TypedDict):
    threadIds: NotRequired[list[int]]


class ModulesArguments(TypedDict):
    startModule: NotRequired[int]
    moduleCount: NotRequired[int]


class ModulesResponseBody(TypedDict):
    modules: list[Module]
    totalModules: NotRequired[int]


LoadedSourcesArguments = dict[str, Any]


class LoadedSourcesResponseBody(TypedDict):
    sources: list[Source]


class EvaluateArguments(TypedDict):
    expression: str
    frameId: NotRequired[int]
    context: NotRequired[str]
    format: NotRequired[ValueFormat]


class EvaluateResponseBody(TypedDict):
    result: str
    type: NotRequired[str]
    presentationHint: NotRequired[VariablePresentationHint]
    variablesReference: int
    namedVariables: NotRequired[int]
    indexedVariables: NotRequired[int]
    memoryReference: NotRequired[str]


class SetExpressionArguments(TypedDict):
    expression: str
    value: str
    frameId: NotRequired[int]
    format: NotRequired[ValueFormat]


class SetExpressionResponseBody(TypedDict):
    value: str
    type: NotRequired[str]
    presentationHint: NotRequired[VariablePresentationHint]
    variablesReference: NotRequired[int]
    namedVariables: NotRequired[int]
    indexedVariables: NotRequired[int]
    memoryReference: NotRequired[str]


class StepInTargetsArguments(TypedDict):
    frameId: int


class StepInTargetsResponseBody(TypedDict):
    targets: list[StepInTarget]


class GotoTargetsArguments(TypedDict):
    source: Source
    line: int
    column: NotRequired[int]


class GotoTargetsResponseBody(TypedDict):
    targets: list[GotoTarget]


class CompletionsArguments(TypedDict):
    frameId: NotRequired[int]
    text: str
    column: int
    line: NotRequired[int]


class CompletionsResponseBody(TypedDict):
    targets: list[CompletionItem]


class ExceptionInfoArguments(TypedDict):
    threadId: int


class ExceptionInfoResponseBody(TypedDict):
    exceptionId: str
    description: NotRequired[str]
    breakMode: ExceptionBreakMode
    details: NotRequired[ExceptionDetails]


class ReadMemoryArguments(TypedDict):
    memoryReference: str
    offset: NotRequired[int]
    count: int


class ReadMemoryResponseBody(TypedDict):
    address: str
    unreadableBytes: NotRequired[int]
    data: NotRequired[str]


class WriteMemoryArguments(TypedDict):
    memoryReference: str
    offset: NotRequired[int]
    allowPartial: NotRequired[bool]
    data: str


class WriteMemoryResponseBody(TypedDict):
    offset: NotRequired[int]
    bytesWritten: NotRequired[int]


class DisassembleArguments(TypedDict):
    memoryReference: str
    offset: NotRequired[int]
    instructionOffset: NotRequired[int]
    instructionCount: int
    resolveSymbols: NotRequired[bool]


class DisassembleResponseBody(TypedDict):
    instructions: list[DisassembledInstruction]


class Capabilities(TypedDict):
    supportsConfigurationDoneRequest: NotRequired[bool]
    supportsFunctionBreakpoints: NotRequired[bool]
    supportsConditionalBreakpoints: NotRequired[bool]
    supportsHitConditionalBreakpoints: NotRequired[bool]
    supportsEvaluateForHovers: NotRequired[bool]
    exceptionBreakpointFilters: NotRequired[list[ExceptionBreakpointsFilter]]
    supportsStepBack: NotRequired[bool]
    supportsSetVariable: NotRequired[bool]
    supportsRestartFrame: NotRequired[bool]
    supportsGotoTargetsRequest: NotRequired[bool]
    supportsStepInTargetsRequest: NotRequired[bool]
    supportsCompletionsRequest: NotRequired[bool]
    completionTriggerCharacters: NotRequired[list[str]]
    supportsModulesRequest: NotRequired[bool]
    additionalModuleColumns: NotRequired[list[ColumnDescriptor]]
    supportedChecksumAlgorithms: NotRequired[list[ChecksumAlgorithm]]
    supportsRestartRequest: NotRequired[bool]
    supportsExceptionOptions: NotRequired[bool]
    supportsValueFormattingOptions: NotRequired[bool]
    supportsExceptionInfoRequest: NotRequired[bool]
    supportTerminateDebuggee: NotRequired[bool]
    supportSuspendDebuggee: NotRequired[bool]
    supportsDelayedStackTraceLoading: NotRequired[bool]
    supportsLoadedSourcesRequest: NotRequired[bool]
    supportsLogPoints: NotRequired[bool]
    supportsTerminateThreadsRequest: NotRequired[bool]
    supportsSetExpression: NotRequired[bool]
    supportsTerminateRequest: NotRequired[bool]
    supportsDataBreakpoints: NotRequired[bool]
    supportsReadMemoryRequest: NotRequired[bool]
    supportsWriteMemoryRequest: NotRequired[bool]
    supportsDisassembleRequest: NotRequired[bool]
    supportsCancelRequest: NotRequired[bool]
    supportsBreakpointLocationsRequest: NotRequired[bool]
    supportsClipboardContext: NotRequired[bool]
    supportsSteppingGranularity: NotRequired[bool]
    supportsInstructionBreakpoints: NotRequired[bool]
    supportsExceptionFilterOptions: NotRequired[bool]
    supportsSingleThreadExecutionRequests: NotRequired[bool]


class ExceptionBreakpointsFilter(TypedDict):
    filter: str
    label: str
    description: NotRequired[str]
    default: NotRequired[bool]
    supportsCondition: NotRequired[bool]
    conditionDescription: NotRequired[str]


class Message(TypedDict):
    id: int
    format: str
    variables: NotRequired[dict[str, str]]
    sendTelemetry: NotRequired[bool]
    showUser: NotRequired[bool]
    url: NotRequired[str]
    urlLabel: NotRequired[str]


class Module(TypedDict):
    id: int | str
    name: str
    path: NotRequired[str]
    isOptimized: NotRequired[bool]
    isUserCode: NotRequired[bool]
    version: NotRequired[str]
    symbolStatus: NotRequired[str]
    symbolFilePath: NotRequired[str]
    dateTimeStamp: NotRequired[str]
    addressRange: NotRequired[str]


class ColumnDescriptor(TypedDict):
    attributeName: str
    label: str
    format: NotRequired[str]
    type: NotRequired[Literal["string", "number", "boolean", "unixTimestampUTC"]]
    width: NotRequired[int]


class Thread(TypedDict):
    id: int
    name: str


class Source(TypedDict):
    name: NotRequired[str]
    path: NotRequired[str]
    sourceReference: NotRequired[int]
    presentationHint: NotRequired[Literal["normal", "emphasize", "deemphasize"]]
    origin: NotRequired[str]
    sources: NotRequired[list[Source]]
    adapterData: NotRequired[Any]
    checksums: NotRequired[list[Checksum]]


class StackFrame(TypedDict):
    id: int
    name: str
    source: NotRequired[Source]
    line: int
    column: int
    endLine: NotRequired[int]
    endColumn: NotRequired[int]
    canRestart: NotRequired[bool]
    instructionPointerReference: NotRequired[str]
    moduleId: NotRequired[int | str]
    presentationHint: NotRequired[Literal["normal", "label", "subtle"]]


class Scope(TypedDict):
    name: str
    presentationHint: NotRequired[str]
    variablesReference: int
    namedVariables: NotRequired[int]
    indexedVariables: NotRequired[int]
    expensive: bool
    source: NotRequired[Source]
    line: NotRequired[int]
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]


class Variable(TypedDict):
    name: str
    value: str
    type: NotRequired[str]
    presentationHint: NotRequired[VariablePresentationHint]
    evaluateName: NotRequired[str]
    variablesReference: int
    namedVariables: NotRequired[int]
    indexedVariables: NotRequired[int]
    memoryReference: NotRequired[str]


class VariablePresentationHint(TypedDict):
    kind: NotRequired[str]
    attributes: NotRequired[list[str]]
    visibility: NotRequired[str]
    lazy: NotRequired[bool]


class BreakpointLocation(TypedDict):
    line: int
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]


class SourceBreakpoint(TypedDict):
    line: int
    column: NotRequired[int]
    condition: NotRequired[str]
    hitCondition: NotRequired[str]
    logMessage: NotRequired[str]


class FunctionBreakpoint(TypedDict):
    name: str
    condition: NotRequired[str]
    hitCondition: NotRequired[str]


DataBreakpointAccessType = Literal["read", "write", "readWrite"]


class DataBreakpoint(TypedDict):
    dataId: str
    accessType: NotRequired[DataBreakpointAccessType]
    condition: NotRequired[str]
    hitCondition: NotRequired[str]


class InstructionBreakpoint(TypedDict):
    instructionReference: str
    offset: NotRequired[int]
    condition: NotRequired[str]
    hitCondition: NotRequired[str]


class Breakpoint(TypedDict):
    id: NotRequired[int]
    verified: bool
    message: NotRequired[str]
    source: NotRequired[Source]
    line: NotRequired[int]
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]
    instructionReference: NotRequired[str]
    offset: NotRequired[int]
    reason: NotRequired[Literal["pending", "failed"]]


SteppingGranularity = Literal["statement", "line", "instruction"]


class StepInTarget(TypedDict):
    id: int
    label: str
    line: NotRequired[int]
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]


class GotoTarget(TypedDict):
    id: int
    label: str
    line: int
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]
    instructionPointerReference: NotRequired[str]


class CompletionItem(TypedDict):
    label: str
    text: NotRequired[str]
    sortText: NotRequired[str]
    detail: NotRequired[str]
    type: NotRequired[CompletionItemType]
    start: NotRequired[int]
    length: NotRequired[int]
    selectionStart: NotRequired[int]
    selectionLength: NotRequired[int]


CompletionItemType = Literal[
    "method",
    "function",
    "constructor",
    "field",
    "variable",
    "class",
    "interface",
    "module",
    "property",
    "unit",
    "value",
    "enum",
    "keyword",
    "snippet",
    "text",
    "color",
    "file",
    "reference",
    "customcolor",
]


ChecksumAlgorithm = Literal["MD5", "SHA1", "SHA256", "timestamp"]


class Checksum(TypedDict):
    algorithm: ChecksumAlgorithm
    checksum: str


class ValueFormat(TypedDict):
    hex: NotRequired[bool]


class StackFrameFormat(ValueFormat):
    parameters: NotRequired[bool]
    parameterTypes: NotRequired[bool]
    parameterNames: NotRequired[bool]
    parameterValues: NotRequired[bool]
    line: NotRequired[bool]
    module: NotRequired[bool]
    includeAll: NotRequired[bool]


class ExceptionFilterOptions(TypedDict):
    filterId: str
    condition: NotRequired[str]


class ExceptionOptions(TypedDict):
    path: NotRequired[list[ExceptionPathSegment]]
    breakMode: ExceptionBreakMode


ExceptionBreakMode = Literal["never", "always", "unhandled", "userUnhandled"]


class ExceptionPathSegment(TypedDict):
    negate: NotRequired[bool]
    names: list[str]


class ExceptionDetails(TypedDict):
    message: NotRequired[str]
    typeName: NotRequired[str]
    fullTypeName: NotRequired[str]
    evaluateName: NotRequired[str]
    stackTrace: NotRequired[str]
    innerException: NotRequired[list[ExceptionDetails]]


class DisassembledInstruction(TypedDict):
    address: str
    instructionBytes: NotRequired[str]
    instruction: str
    symbol: NotRequired[str]
    location: NotRequired[Source]
    line: NotRequired[int]
    column: NotRequired[int]
    endLine: NotRequired[int]
    endColumn: NotRequired[int]
    presentationHint: NotRequired[Literal["normal", "invalid"]]


InvalidatedAreas = str
