import CallCore
import CallLoadKit
import CallProcesses
import Testing

@Suite("The meter of processors") struct ProcessorMeterTests {
  private typealias Ticks = ProcessorMeter.Ticks

  @Test("the first line of /proc/stat counts, and nothing else is taken for it")
  func parses() {
    let stat = "cpu  10 1 5 100 20 2 3 4 6 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    #expect(Ticks(stat: stat) == Ticks(idle: 120, all: 145))
    for wrong in ["", "\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3\n", "intr 1 2 3 4 5 6 7 8 9"] {
      #expect(Ticks(stat: wrong) == nil)
    }
    #expect(ProcessFiles.read("/proc/stat").flatMap { Ticks(stat: $0) } != nil)
  }

  @Test("processors are busy from one look to the next if hardly any of the time was idle")
  func busy() {
    var meter = ProcessorMeter()
    #expect(meter.busySince(at: at(1)) { Ticks(idle: 50, all: 1_000) } == nil)
    #expect(meter.busySince(at: at(2)) { Ticks(idle: 54, all: 1_100) } == at(1))
    #expect(meter.busySince(at: at(2.4)) { Ticks(idle: 54, all: 1_140) } == nil, "too soon")
    #expect(meter.busySince(at: at(3)) { Ticks(idle: 60, all: 1_200) } == nil, "6 of 100 were idle")
    #expect(meter.busySince(at: at(4)) { Ticks(idle: 60, all: 1_300) } == at(3))
    #expect(meter.busySince(at: at(5)) { nil } == nil)
    #expect(meter.busySince(at: at(6)) { Ticks(idle: 60, all: 1_300) } == nil, "no time has passed")
    #expect(meter.busySince(at: at(7)) { Ticks(idle: 10, all: 1_400) } == nil, "it counts anew")
  }
}
