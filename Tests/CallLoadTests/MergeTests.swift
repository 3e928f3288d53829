import ArgumentParser
import CallCore
import CallLoadKit
import CallProcesses
import Foundation
import Testing

/// The reports of a run's slices, as files, add up to the report of the run.
@Suite("callload merge") struct MergeTests {
  /// Microseconds of every third ring.
  private static func rings(_ slice: Int) -> [Int64] {
    (1...20_000).filter { $0 % 3 == slice - 1 }.map { $0 * $0 }
  }

  /// The report of a slice; the first one has the servers.
  private func slice(_ number: Int, of count: Int = 3) -> RunReport {
    var report = makeReport()
    (report.settings.slice, report.settings.processes) = (number, count)
    (report.result.devicesExpected, report.result.devicesConnected) = (100 * number, 100 * number)
    report.result.devicesRegistered = 100 * number - 1
    (report.result.callsExpected, report.result.callsPlaced) = (10 * number, 10 * number)
    report.result.callsCompleted = 10 * number
    report.result.callsByPart = ["answered": 10 * number]
    report.result.rampSeconds = Double(number)
    var ring = LatencyHistogram()
    for value in Self.rings(number) { ring.record(Span(microseconds: value)) }
    report.result.latency = [.ring: ring]
    (report.ownCPUMicroseconds, report.ownMemoryBytes) = (1_000 * UInt64(number), 7)
    report.idle = IdleUsage(
      seconds: 2, devices: 600, processes: number == 1 ? report.processes : [],
      ownCPUMicroseconds: 5_000)
    if number > 1 {
      report.processes = []
      report.edgeBytesPerDevice = nil
      report.machine.natsVersion = ""
    }
    return report
  }

  private func merged(_ reports: [RunReport]) throws -> RunReport {
    try RunReport(
      merging: reports.enumerated().map {
        ("\($0.offset).json", try SliceReport(json: $0.element.json().encoded()))
      })
  }

  private func refusal(_ reports: [RunReport]) -> String {
    do {
      _ = try merged(reports)
      return "accepted"
    } catch {
      return "\(error)"
    }
  }

  @Test("counts add up, and percentiles are those of all values") func exact() throws {
    var reports = (1...3).map { slice($0) }
    (reports[1].result.failures, reports[2].result.failures) = (["late": 1], ["late": 2, "odd": 1])
    reports[2].result.correctness = [.twoWinners: 2]
    let merged = try merged(reports.reversed())
    let result = merged.result
    #expect((result.devicesExpected, result.devicesConnected) == (600, 600))
    #expect(result.devicesRegistered == 597)
    #expect((result.callsExpected, result.callsPlaced, result.callsCompleted) == (60, 60, 60))
    #expect(result.callsByPart == ["answered": 60])
    #expect(result.failures == ["late": 3, "odd": 1])
    #expect(result.correctness[.twoWinners] == 2 && result.correctness[.noWinner] == 0)
    #expect((result.loadSeconds, result.rampSeconds) == (30, 3))
    var all = LatencyHistogram()
    for value in (1...3).flatMap(Self.rings) { all.record(Span(microseconds: value)) }
    let ring = try #require(result.latency[.ring])
    for percentile in [0, 50, 90, 99, 99.9, 100] {
      #expect(ring.valueAtPercentile(percentile) == all.valueAtPercentile(percentile))
    }
    #expect((ring.totalCount, ring.max, ring.mean) == (20_000, all.max, all.mean))
    #expect(Verdict(merged).problems == ["two winners: 2"])
  }

  @Test("the servers are those of the first slice, callload's work that of all") func costs() throws
  {
    let merged = try merged((1...3).map { slice($0) })
    #expect(merged.processes == slice(1).processes)
    #expect(merged.edgeBytesPerDevice == 7_900 && merged.machine == makeReport().machine)
    #expect((merged.ownCPUMicroseconds, merged.ownMemoryBytes) == (6_000, 21))
    #expect(merged.cpuPerCall() == 41_000)
    let idle = try #require(merged.idle)
    #expect((idle.devices, idle.ownCPUMicroseconds) == (600, 15_000))
    #expect(idle.cpuPerSecond(.edge) == slice(1).idle?.cpuPerSecond(.edge))
    #expect(idle.cpuPerSecond() == slice(1).idle?.cpuPerSecond())
    #expect(merged.settings.devices == 600 && merged.settings.slice == nil)
    let text = merged.text(.plain)
    #expect(text[0].contains("in 3 slices"))
    #expect(text.last?.hasPrefix("OK: 600/600 devices, 60/60 calls") == true)
    let json = try fields(merged)
    #expect(json["settings.processes"] == .number(3) && json["settings.slice"] == nil)
    #expect(json["latency_us.ring.count"] == .number(20_000))
  }

  @Test("a run is interrupted, or has an incident, where a slice is or has") func incidents() throws
  {
    var reports = (1...3).map { slice($0) }
    reports[0].incidents = ["edge-1 was ended by signal 9, which nobody asked it to"]
    #expect(try Verdict(merged(reports)).problems == reports[0].incidents)
    reports[1].result.interrupted = true
    #expect(try Verdict(merged(reports)).exitStatus == 130)
  }

  @Test("reports that do not belong together are refused") func strangers() {
    let reports = (1...3).map { slice($0) }
    #expect(refusal([]) == "give the reports of all slices")
    #expect(refusal([reports[0], reports[2]]) == "slice 2 of 3 is missing")
    #expect(
      refusal([reports[0], reports[1], reports[1]])
        == "2.json: is of slice 2, as 1.json is; give each slice once")
    #expect(refusal([makeReport()]).hasPrefix("0.json: is of a whole run, not of a slice"))
    var other = reports[2]
    other.settings.seed = 8
    #expect(
      refusal([reports[0], reports[1], other])
        == "2.json: is not of the same run as 0.json: seed is 8, not 7")
    other = reports[2]
    other.processes = makeReport().processes
    #expect(
      refusal([reports[0], reports[1], other]) == "2.json: is of another cluster than 0.json")
    let merged = try? merged(reports)
    #expect(merged.map { refusal([$0]) }?.contains("is of a whole run") == true)
  }

  @Test("a file that is damaged, or none, is named with what is wrong") func damaged() throws {
    let folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let path = folder + "/2.json"
    let text = String(decoding: try slice(2, of: 2).json().encoded(), as: UTF8.self)
    func failure(_ text: String) throws -> String {
      try text.write(toFile: path, atomically: true, encoding: .utf8)
      do {
        _ = try MergeCommand.parse([path]).merged()
        return "accepted"
      } catch {
        return "\(error)"
      }
    }
    #expect(try failure(text) == "slice 1 of 2 is missing")
    let prefix = "\(path): is no whole report that callload wrote with --json ("
    for wrong in [
      "", "{}", String(text.prefix(text.count / 2)), text.replacing("1:1 ", with: "1:x "),
      text.replacing("1:1 ", with: "1 "), text.replacing("1:1 ", with: "999999999999:1 "),
      text.replacing("1:1 ", with: "1:4294967295 "),
      text.replacing("\"twoWinners\"", with: "\"threeWinners\""),
    ] {
      #expect(try failure(wrong).hasPrefix(prefix), "\(wrong.prefix(20))")
    }
    #expect(try failure("{}").contains("is missing"))
    #expect(try failure(text.replacing("1:1 ", with: "1:x ")).contains("\"1:x\" is no value"))
    #expect(throws: SetupError.self) { try MergeCommand.parse([folder + "/none"]).merged() }
  }

  @Test("what is written is read again") func file() throws {
    let folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let paths = (1...3).map { "\(folder)/\($0).json" }
    for number in 1...3 {
      try slice(number).json().encoded().write(to: URL(fileURLWithPath: paths[number - 1]))
    }
    let report = try MergeCommand.parse(paths + ["--json", folder + "/run.json"]).merged()
    let written = try Data(contentsOf: URL(fileURLWithPath: folder + "/run.json"))
    #expect(written == (try report.json().encoded()))
  }
}
