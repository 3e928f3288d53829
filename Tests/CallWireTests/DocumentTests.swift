import CallCore
import CallWire
import Foundation
import Testing

/// docs/device-protocol.md says what is: its frames parse, its conversations are what the rules do,
/// and its tables hold every code.
@Suite struct DocumentTests {
  /// A fenced block: its info string, and its lines.
  struct Block {
    var info: String
    var line: Int
    var lines: [String]
  }

  static let text = file("docs/device-protocol.md")

  private static func file(_ path: String) -> String {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    return (try? String(contentsOf: folder.appending(path: "../../" + path), encoding: .utf8)) ?? ""
  }

  static let blocks: [Block] = {
    var blocks: [Block] = []
    var open: Block?
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
    {
      if line.hasPrefix("```") {
        if let block = open {
          blocks.append(block)
          open = nil
        } else {
          open = Block(info: String(line.dropFirst(3)), line: index + 1, lines: [])
        }
      } else {
        open?.lines.append(String(line))
      }
    }
    return blocks
  }()

  /// The frames of blocks with such an info string, one frame a line or over several.
  private func frames(
    _ info: String, least: Int, _ read: ([UInt8]) throws(FrameError) -> Void
  ) {
    let blocks = Self.blocks.filter { $0.info == info }
    #expect(blocks.count >= least)
    for block in blocks {
      for frame in Self.frames(block) {
        do throws(FrameError) {
          try read(Array(frame.utf8))
        } catch {
          Issue.record("line \(block.line): \(error.error): \(frame)")
        }
      }
    }
  }

  @Test func framesOfDevices() {
    var kinds: Set<String> = []
    frames("json client", least: 10) { (bytes) throws(FrameError) in
      kinds.insert(Self.kind(try DeviceCodec.json.decodeClient(bytes).command))
    }
    // One example at least of every command.
    #expect(kinds.count == 26, "\(kinds.sorted())")
  }

  @Test func framesOfEdges() {
    frames("json server", least: 5) { (bytes) throws(FrameError) in
      let read = try DeviceCodec.json.decodeServer(bytes)
      // Nothing in it that the cluster would not say: it reads the same when written again.
      let again = try DeviceCodec.json.decodeServer(DeviceCodec.json.encode(read))
      #expect(again == read)
    }
  }

  /// Conversations are played against the rules, with a clock of their own.
  @Test func conversations() throws {
    let blocks = Self.blocks.filter { $0.info.hasPrefix("text conversation") }
    #expect(blocks.count >= 9)
    for block in blocks {
      let played = try Conversation.play(
        block.lines, acksAreLeftOut: block.info.contains("acks left out"))
      for (index, pair) in zip(block.lines, played).enumerated() where pair.0 != pair.1 {
        Issue.record("line \(block.line + 1 + index): is \(pair.0), has to be \(pair.1)")
        break
      }
      #expect(
        block.lines.count == played.count,
        "line \(block.line); the whole:\n\(played.joined(separator: "\n"))")
    }
  }

  /// A device counts upwards for as long as its process lives, through all its connections; a command
  /// that it retransmits keeps its id.
  @Test func idsCountUpwards() {
    for block in Self.blocks where block.info.hasPrefix("text conversation") {
      var said: [String: [UInt64: String]] = [:]
      for (index, line) in block.lines.enumerated() {
        let words = line.split { " ,".contains($0) }.map(String.init)
        if line.contains("is attached") || line.contains("are attached") {
          for device in words where device.contains("-") { said[device] = [1: "attach"] }
        } else if line.contains("ends the app") {
          said[words[1]] = nil
        }
        let sides = line.split(separator: " -> ", maxSplits: 1).map(String.init)
        guard sides.count == 2, sides[1].hasPrefix("{") else { continue }
        let id: UInt64
        do throws(FrameError) {
          id = try DeviceCodec.json.decodeClient(Array(sides[1].utf8)).id
        } catch {
          id = error.id
        }
        let former = said[words[0], default: [:]]
        let command = String(sides[1].drop { $0 != "," })
        // An ack needs none.
        guard id > 0, former[id] != command else { continue }
        let place = "line \(block.line + 1 + index)"
        #expect(id > former.keys.max() ?? 0, "\(place)")
        let isSaidAgain = former.values.contains(command) && !command.hasPrefix(",\"attach\"")
        #expect(!isSaidAgain, "\(place): under another id")
        said[words[0], default: [:]][id] = command
      }
    }
  }

  @Test func everyErrorStandsInTheTable() {
    for code in CallError.Code.allCases {
      let row = "| \(code.rawValue) | `\(code.name)` | \(code.sentence) |"
      #expect(Self.text.contains(row), "missing: \(row)")
    }
  }

  @Test func everyEndReasonStandsInTheTable() {
    for reason in EndReason.allCases {
      #expect(Self.text.contains("| `\(reason.name)` |"), "missing: \(reason.name)")
    }
  }

  /// The fields of a message in device.proto, or of its oneof, by their names in JSON.
  private static func fields(of message: String, oneof: String? = nil) throws -> [String] {
    let proto = file("Proto/callmesh/v1/device.proto").split(separator: "\n")
    var lines = proto.drop { $0 != "message \(message) {" }.dropFirst()
    if let oneof { lines = lines.drop { $0 != "  oneof \(oneof) {" }.dropFirst() }
    let own = lines.prefix { !$0.hasPrefix(oneof == nil ? "}" : "  }") }
    return try own.compactMap { line in
      let field = try /^ +(?:repeated )?[\w.]+ (\w+) = \d+;/.firstMatch(in: String(line))
      return field.map { match in
        let words = match.1.split(separator: "_")
        return words.dropFirst().reduce(String(words[0])) { $0 + $1.capitalized }
      }
    }
  }

  /// - Parameter head: how the first line of the table begins.
  private static func table(_ head: String) -> String {
    text.range(of: "\n" + head).map { start in
      text[start.upperBound...].components(separatedBy: "\n\n")[0]
    } ?? ""
  }

  @Test func everyKindOfReplyStandsInTheTable() throws {
    let kinds = try Self.fields(of: "Reply", oneof: "result")
    #expect(kinds.count >= 10)
    // `app` is between nodes only.
    for kind in kinds where kind != "app" {
      #expect(Self.table("| member | holds |").contains("\n| `\(kind)` |"), "missing: \(kind)")
    }
  }

  @Test func everyKindOfDeliveryIsDescribed() throws {
    let kinds = try Self.fields(of: "Delivery", oneof: "event")
    #expect(kinds.count >= 7)
    let all = kinds.map { "`\($0)`" }.joined(separator: ", ")
    #expect(Self.text.contains("| one of \(all) |"))
    for kind in kinds { #expect(Self.text.contains("\n**\(kind)**, to "), "missing: \(kind)") }
  }

  @Test func everyFieldOfACallStateStandsInTheTable() throws {
    let fields = try Self.fields(of: "CallState")
    #expect(fields.count >= 10)
    for field in fields {
      #expect(Self.table("| call state |").contains("`\(field)`"), "missing: \(field)")
    }
  }

  @Test func tablesOfOtherDocumentsAreWhole() {
    let webhooks = Self.file("docs/webhooks.md")
    for kind in AppEventKind.allCases {
      #expect(webhooks.contains("\n| `\(kind.type)` |"), "missing: \(kind.type)")
    }
    let operations = Self.file("docs/operations.md")
    let fates = operations.split(separator: "\n").first { $0.hasPrefix("| `endedAtUs`, `fate` |") }
    for fate in LegFate.allCases {
      #expect(fates?.contains("`\(fate.name)`") == true, "missing: \(fate.name)")
    }
    let migrating = Self.file("docs/migrating.md").replacing("\n  ", with: " ")
    for code in CallError.Code.allCases {
      let name = "\(code.rawValue) `\(code.name)`"
      #expect(migrating.contains(name), "missing: \(name)")
    }
    for reason in EndReason.allCases {
      #expect(migrating.contains("`\(reason.name)`"), "missing: \(reason.name)")
    }
  }

  @Test func bodiesOfHTTPRequests() throws {
    for block in Self.blocks {
      let bytes = Array(block.lines.joined(separator: "\n").utf8)
      switch block.info {
      case "json register": _ = try HTTPBodies.register(bytes)
      case "json rules": _ = try HTTPBodies.userRules(bytes)
      case "json decline": _ = try HTTPBodies.decline(bytes)
      default: break
      }
    }
  }

  /// A frame begins with a brace at the margin.
  private static func frames(_ block: Block) -> [String] {
    var frames: [String] = []
    for line in block.lines {
      if line.hasPrefix("{") || frames.isEmpty {
        frames.append(line)
      } else {
        frames[frames.count - 1] += "\n" + line
      }
    }
    return frames
  }

  private static func kind(_ command: ClientCommand) -> String {
    switch command {
    case .call(_, .signal(let kind, _)): "signal \(kind)"
    case .call(_, let verb): verb.name
    default: String("\(command)".prefix { $0 != "(" })
    }
  }
}
