internal import CallCore
internal import CallTelemetry

/// The rows of `callctl calls`, as a table and as CSV.
package enum CallRowsText {
  static let heading = [
    "CALL", "STATE", "PLACED", "RANG", "TALKED", "CALLER", "CALLEE", "ANSWERED BY", "APP",
  ]

  package static func table(_ rows: [CallRow]) -> String {
    rows.isEmpty
      ? "No calls.\n"
      : Columns.render([heading] + rows.map(cells), right: 3...4).joined(separator: "\n") + "\n"
  }

  /// A line as it comes, without knowing the others' widths.
  package static func line(_ row: CallRow) -> String {
    cells(row).map(Figures.safe).joined(separator: "  ")
  }

  private static func cells(_ row: CallRow) -> [String] {
    let record = row.record
    let state = record.end.map { "ended, \($0.reason.name)" } ?? row.phase
    // A shard's list does not say when the call was answered.
    let answeredAt = record.answer.flatMap { $0.at.microseconds > 0 ? $0.at : nil }
    let endAt = record.end.flatMap { $0.at.microseconds > 0 ? $0.at : nil }
    let rang = (answeredAt ?? (record.answer == nil ? endAt : nil)).map { $0 - record.placedAt }
    let talked = answeredAt.flatMap { from in endAt.map { $0 - from } }
    return [
      record.call.description, state,
      CalendarTime.text(milliseconds: record.placedAt.milliseconds),
      rang.map(seconds) ?? "-", talked.map(seconds) ?? "-", party(record.caller),
      record.callee.user, record.answer.map { party($0.by) } ?? "-", record.callee.app,
    ]
  }

  private static func seconds(_ span: Span) -> String {
    Figures.decimal(Double(span.microseconds) / 1e6) + "s"
  }

  private static func party(_ party: Party) -> String { "\(party.user) (\(party.device))" }

  // MARK: CSV

  package static let csvHeading =
    "call,phase,app,caller,caller_device,caller_name,callee,video,placed_at,answered_at,answered_by,"
    + "answered_by_device,ended_at,reason,ended_by,ended_by_device,missed,unreachable,legs,diversions\r\n"

  /// One line of RFC 4180. Two cells are lists, with a space between two items: `user/device=fate` for each device that
  /// had a part, and `from>to+to=reason` for each time that the call went on or was transferred.
  package static func csv(_ row: CallRow) -> String {
    let (record, end, by) = (row.record, row.record.end, row.record.end?.by)
    func time(_ time: Timestamp?) -> String {
      guard let time, time.microseconds > 0 else { return "" }
      return CalendarTime.text(milliseconds: time.milliseconds)
    }
    var cells = [record.call.description, row.phase, record.callee.app]
    cells += [record.caller.user, record.caller.device.text, record.caller.name]
    cells += [record.callee.user, "\(record.video)", time(record.placedAt)]
    let answerer = record.answer?.by
    cells += [time(record.answer?.at), answerer?.user ?? "", answerer?.device.text ?? ""]
    cells += [time(end?.at), end?.reason.name ?? "", by?.user ?? "", by?.device.text ?? ""]
    cells.append(end.map { $0.missed ? "true" : "false" } ?? "")
    cells.append(end?.unreachable.map { "\($0)" } ?? "")
    let legs = record.legs.map { "\($0.party.user)/\($0.party.device)=\($0.fate.name)" }
    cells.append(legs.joined(separator: " "))
    let ways = record.diversions.map {
      "\($0.from)>\($0.to.joined(separator: "+"))=\($0.reason.name)"
    }
    cells.append(ways.joined(separator: " "))
    return cells.map(cell).joined(separator: ",") + "\r\n"
  }

  /// Quotes text from devices and apps, so that no spreadsheet takes it for a formula.
  private static func cell(_ text: String) -> String {
    guard let first = text.utf8.first else { return "" }
    let isFormula = "=+-@\t\r".utf8.contains(first)
    let isPlain = text.utf8.allSatisfy { $0 >= 32 && $0 != 34 && $0 != 44 }
    if isPlain, !isFormula { return text }
    return "\"" + (isFormula ? "'" : "") + text.replacing("\"", with: "\"\"") + "\""
  }
}
