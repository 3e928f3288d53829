package import ArgumentParser
import FoundationEssentials

package struct MergeCommand: ParsableCommand, Sendable {
  static let name = "merge"

  package static let configuration = CommandConfiguration(
    commandName: name,
    abstract: "Adds the reports of a run's slices up to one.",
    usage: "callload merge REPORT... [--json FILE]",
    discussion: """
      Each report is what callload --slice I/N --json FILE wrote. Counts are added, histograms are joined \
      exactly, and the exit status is that of the whole run.
      """)

  @Argument(help: ArgumentHelp("The reports of all slices.", valueName: "report"))
  package var reports: [String]

  @Option(help: ArgumentHelp("Write the report of the run as JSON.", valueName: "file"))
  package var json: String?

  package init() {}

  /// Writes the file as well.
  /// - Throws: ``SetupError`` that names the file and what is wrong with it.
  package func merged() throws -> RunReport {
    if let json { try RunPlan.checkWritable(json) }
    let report = try RunReport(
      merging: reports.map { path in
        guard let data = FileManager.default.contents(atPath: path) else {
          throw SetupError("\(path): cannot be read")
        }
        do { return (path, try SliceReport(json: data)) } catch {
          throw SetupError(
            "\(path): is no whole report that callload wrote with --json (\(Self.text(error)))")
        }
      })
    if let json {
      try report.json().encoded().write(to: URL(filePath: json))
    }
    return report
  }

  private static func text(_ error: any Error) -> String {
    guard let error = error as? DecodingError else { return "\(error)" }
    let (context, what): (DecodingError.Context, String) =
      switch error {
      case .keyNotFound(let key, let context): (context, "\(key.stringValue) is missing")
      case .typeMismatch(_, let context), .valueNotFound(_, let context),
        .dataCorrupted(let context):
        (context, context.debugDescription)
      @unknown default: (.init(codingPath: [], debugDescription: ""), "\(error)")
      }
    let path = context.codingPath.map(\.stringValue).joined(separator: ".")
    return path.isEmpty ? what : "\(path): \(what)"
  }
}
