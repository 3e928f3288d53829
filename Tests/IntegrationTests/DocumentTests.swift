import Foundation
import TestSupport
import Testing

/// Every command block of README and of the page for operators runs as it is printed, or is in the table
/// of those that cannot.
@Suite(.serialized) struct DocumentTests {
  private static let pages = ["README.md", "docs/operations.md"]

  /// First lines of blocks that are not run, and why.
  private static let notRun = [
    "make phone   # a phone for browsers, with a cluster of its own: open it as Ann in one window, as Bob in another, and call":
      "builds, and runs these tests; what it starts is tested by CallloadTests",
    "systemctl daemon-reload": "needs systemd as the machine's first process",
    "callctl drain coordinator-$(hostname)-1 --wait && systemctl restart callmesh-coordinator@1":
      "needs systemd as the machine's first process; RollingRestartTests does the same",
    "callload --callnode OLD/callnode --other-callnode NEW/callnode --chaos rolling-restart=5s --duration 2m":
      "needs two versions",
    #"make build && export PATH="$PWD/.build/release:$PATH""#:
      "leaves a phone and a node running; PhoneTests do the same against a scripted edge",
  ]

  @Test func everyBlockSaysWhatItIs() throws {
    var skipped: Set<String> = []
    for block in try Self.pages.flatMap(DocumentBlock.all) {
      switch block.kind {
      case nil: Issue.record("\(block): the fence says neither sh nor text")
      case .output:
        let hasCommand = block.text.split(separator: "\n").contains { $0.hasPrefix("$ ") }
        #expect(
          !hasCommand, "\(block): a command among output is not run; give it a block of its own")
      case .notRun:
        skipped.insert(block.firstLine)
        #expect(Self.notRun[block.firstLine] != nil, "\(block) is not run, and no reason is known")
      case .shell, .newShell, .rootShell: break
      }
    }
    #expect(skipped == Set(Self.notRun.keys), "reasons without a block")
  }

  @Test(arguments: Proof.arguments([pages[0]], andInProof: [pages[1]]))
  func blocksRunAsPrinted(page: String) async throws {
    let sessions = try DocumentBlock.sessions(of: page).filter { !$0.isRoot }
    #expect(!sessions.isEmpty)
    for session in sessions { try await run(session) }
  }

  @Test(
    .enabled(if: Proof.isOn, "only make prove runs it"),
    .enabled(if: DocumentShell.coversFolders, "needs root, mount namespaces and overlayfs"))
  func installingRunsAsPrinted() async throws {
    let sessions = try DocumentBlock.sessions(of: "docs/operations.md").filter(\.isRoot)
    #expect(sessions.count == 1)
    for session in sessions { try await run(session) }
  }

  private func run(_ session: DocumentBlock.Session) async throws {
    let output = try await DocumentShell.run(session)
    #expect(output.status == 0, "\(output.text)")
  }
}
