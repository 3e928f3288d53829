import CallFuzz
import Foundation
import Testing

/// Everything that fuzzing found worth keeping, and every input that ever broke something, is read without
/// harm. docs/fuzzing.md tells how to find out more about one that is not.
@Suite struct CorpusTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../Corpora").standardizedFileURL

  @Test(arguments: FuzzTarget.all) func everyInputIsRead(target: FuzzTarget) throws {
    let folder = Self.folder.appending(path: target.name)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path()).sorted()
    #expect(!names.isEmpty)
    let run = try target.make()
    for name in names {
      let bytes = try Data(contentsOf: folder.appending(path: name))
      do {
        try bytes.withUnsafeBytes { try run($0) }
      } catch {
        Issue.record("\(target.name)/\(name): \(error)")
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
