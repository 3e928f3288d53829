import CallCore
import CallFuzz
import Foundation
import Testing

/// Everything that fuzzing found worth keeping, and every input that ever broke something, is read without
/// harm. docs/fuzzing.md tells how to find out more about one that is not.
@Suite struct CorpusTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../Corpora").standardizedFileURL
  /// The number of changed inputs for each target.
  private static let rounds =
    ProcessInfo.processInfo.environment["CALLMESH_FUZZ_ROUNDS"].flatMap { Int($0) } ?? 500

  private static func inputs(of target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
    let folder = folder.appending(path: target.name)
    return try FileManager.default.contentsOfDirectory(atPath: folder.path()).sorted().map {
      ($0, Array(try Data(contentsOf: folder.appending(path: $0))))
    }
  }

  @Test(arguments: FuzzTarget.all) func everyInputIsRead(target: FuzzTarget) throws {
    let run = try target.make()
    for (name, bytes) in try Self.inputs(of: target) {
      do {
        try bytes.withUnsafeBytes { try run($0) }
      } catch {
        Issue.record("\(target.name)/\(name): \(error)")
      }
    }
  }

  /// Changes inputs as libFuzzer does at length, in short, and without looking where it leads.
  @Test(arguments: FuzzTarget.all) func changedInputsAreRead(target: FuzzTarget) throws {
    let run = try target.make()
    let inputs = try Self.inputs(of: target).map(\.bytes)
    var change = Change(state: 1)
    for round in 0..<Self.rounds {
      var bytes = inputs[round % inputs.count]
      for _ in 0...change.below(4) { change.change(&bytes, inputs) }
      do {
        try bytes.withUnsafeBytes { try run($0) }
      } catch {
        Issue.record(
          "\(target.name), round \(round): \(error): \(Data(bytes).base64EncodedString())")
      }
    }
  }

  /// An input that no target reads would be kept in vain.
  @Test func everyFolderHasATarget() throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path())
      .filter { !$0.contains(".") }
    #expect(Set(names) == Set(FuzzTarget.all.map(\.name)))
  }
}

/// Small changes, the same in every run.
private struct Change {
  var state: UInt64

  /// SplitMix64.
  mutating func below(_ bound: Int) -> Int {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return Int((z ^ (z >> 31)) % UInt64(bound))
  }

  private static let words: [[UInt8]] =
    ["9223372036854775808", "-1", "1e400", "\"\"", "[", "{", "null", "\\ud800", "%c3", ".", "\r\n"]
    .map { Array($0.utf8) } + [[0], [0x80], [0xff], [UInt8](repeating: 0xff, count: 9)]

  mutating func change(_ bytes: inout [UInt8], _ others: [[UInt8]]) {
    let at = below(bytes.count + 1)
    let end = at + below(min(16, bytes.count - at) + 1)
    switch below(6) {
    case 0 where at < bytes.count: bytes[at] ^= 1 << UInt8(below(8))
    case 1 where at < bytes.count: bytes[at] = UInt8(below(256))
    case 2: bytes.removeSubrange(at..<end)
    case 3: bytes.insert(contentsOf: bytes[at..<end], at: below(bytes.count + 1))
    case 4: bytes.replaceSubrange(at..<end, with: Self.words[below(Self.words.count)])
    default:
      let other = others[below(others.count)]
      bytes = Array(bytes[..<at] + other.suffix(below(other.count + 1)))
    }
  }
}
