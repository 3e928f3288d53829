import Foundation

/// A fenced block of a page of the documentation.
///
/// The words behind the fence say what it is: `sh` runs in the shell of the blocks before it, `sh new` in
/// a new one, in a folder of its own, `sh root` in one that may change the machine's files, `sh not-run`
/// nowhere. `text` is what a program prints.
struct DocumentBlock: Sendable, CustomStringConvertible {
  enum Kind: String, Sendable {
    case shell = "sh"
    case newShell = "sh new"
    case rootShell = "sh root"
    case notRun = "sh not-run"
    case output = "text"
  }

  var page: String
  /// The line of the opening fence, counted from 1.
  var line: Int
  /// nil: the fence says nothing that is known.
  var kind: Kind?
  var text: String

  var description: String { "\(page):\(line)" }
  var firstLine: String { String(text.prefix { $0 != "\n" }) }

  static let repository = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path

  /// The blocks of a page, without the indentation that a list gives them.
  static func all(of page: String) throws -> [DocumentBlock] {
    let text = try String(contentsOfFile: repository + "/" + page, encoding: .utf8)
    var blocks: [DocumentBlock] = []
    var open: (block: DocumentBlock, indent: Int)?
    for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
    {
      let content = line.drop { $0 == " " }
      if content.hasPrefix("```") {
        if let (block, _) = open {
          blocks.append(block)
          open = nil
        } else {
          let block = DocumentBlock(
            page: page, line: number + 1, kind: Kind(rawValue: String(content.dropFirst(3))),
            text: "")
          open = (block, line.count - content.count)
        }
      } else if let indent = open?.indent {
        open?.block.text += line.dropFirst(min(indent, line.count - content.count)) + "\n"
      }
    }
    return blocks
  }

  /// The blocks that one shell runs, one after the other.
  struct Session: Sendable {
    var blocks: [DocumentBlock]
    var isRoot: Bool
  }

  static func sessions(of page: String) throws -> [Session] {
    var sessions: [Session] = []
    var root = Session(blocks: [], isRoot: true)
    for block in try all(of: page) {
      switch block.kind {
      case .newShell: sessions.append(Session(blocks: [block], isRoot: false))
      case .shell where !sessions.isEmpty: sessions[sessions.count - 1].blocks.append(block)
      case .shell: sessions.append(Session(blocks: [block], isRoot: false))
      case .rootShell: root.blocks.append(block)
      case .notRun, .output, nil: break
      }
    }
    return root.blocks.isEmpty ? sessions : sessions + [root]
  }
}
