// The workloads of benches/src/workload.rs with the PipeWriter that .NET makes over a stream.
// Prints the version, then a line for each workload: name, nanoseconds and allocated bytes of one operation.

using System;
using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.IO.Pipelines;
using System.Threading;
using System.Threading.Tasks;

// Counts what arrives and keeps nothing. Every call ends at once.
sealed class Sink : Stream
{
    public long Arrived;

    public override bool CanRead => false;
    public override bool CanSeek => false;
    public override bool CanWrite => true;
    public override long Length => throw new NotSupportedException();
    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();
    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();
    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => Arrived += count;
    public override void Write(ReadOnlySpan<byte> buffer) => Arrived += buffer.Length;

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken token)
    {
        Arrived += count;
        return Task.CompletedTask;
    }

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken token = default)
    {
        Arrived += buffer.Length;
        return default;
    }

    public override void Flush() { }
    public override Task FlushAsync(CancellationToken token) => Task.CompletedTask;
}

static class Program
{
    delegate Task Operations(PipeWriter writer, byte[] data, int count);

    // One of the workloads; `Bytes` must arrive for each operation.
    readonly struct Workload
    {
        public readonly string Name;
        public readonly byte[] Data;
        public readonly long Bytes;
        public readonly Operations Run;

        public Workload(string name, byte[] data, int writes, Operations run)
        {
            Name = name;
            Data = data;
            Bytes = (long)data.Length * writes;
            Run = run;
        }
    }

    const int Many = 1000;
    const int Rounds = 15;
    const double RoundMilliseconds = 100;
    const double WarmUpMilliseconds = 1500;

    static async Task Whole(PipeWriter writer, byte[] data, int count)
    {
        for (var i = 0; i < count; i++) await writer.WriteAsync(data);
    }

    static Task ManyWhole(PipeWriter writer, byte[] data, int count) => Whole(writer, data, count * Many);

    static async Task Span(PipeWriter writer, byte[] data, int count)
    {
        for (var i = 0; i < count; i++)
        {
            data.AsSpan().CopyTo(writer.GetSpan(data.Length));
            writer.Advance(data.Length);
            await writer.FlushAsync();
        }
    }

    static async Task Append(PipeWriter writer, byte[] data, int count)
    {
        for (var i = 0; i < count; i++)
        {
            writer.Write(data);
            await writer.FlushAsync();
        }
    }

    static async Task Batch(PipeWriter writer, byte[] data, int count)
    {
        for (var i = 0; i < count; i++)
        {
            for (var j = 0; j < Many; j++) writer.Write(data);
            await writer.FlushAsync();
        }
    }

    sealed class Case
    {
        readonly Workload workload;
        readonly Sink sink = new Sink();
        readonly PipeWriter writer;
        int count = 1;

        public readonly double[] Times = new double[Rounds];
        public readonly double[] Allocated = new double[Rounds];
        public string Name => workload.Name;

        public Case(Workload workload)
        {
            this.workload = workload;
            writer = PipeWriter.Create(sink);
        }

        // Runs `count` operations: milliseconds and allocated bytes.
        (double, double) Run()
        {
            var arrived = sink.Arrived;
            var allocated = GC.GetAllocatedBytesForCurrentThread();
            var start = Stopwatch.GetTimestamp();
            var task = workload.Run(writer, workload.Data, count);
            var time = (Stopwatch.GetTimestamp() - start) * 1e3 / Stopwatch.Frequency;
            if (!task.IsCompletedSuccessfully) throw new InvalidOperationException(Name + " did not end on the spot");
            if (sink.Arrived - arrived != workload.Bytes * count) throw new InvalidOperationException(Name + " lost bytes");
            return (time, GC.GetAllocatedBytesForCurrentThread() - allocated);
        }

        // Runs until the compiler has done its best, and finds out how many operations fill a round.
        public void WarmUp()
        {
            var clock = Stopwatch.StartNew();
            var time = 0.0;
            while (clock.Elapsed.TotalMilliseconds < WarmUpMilliseconds || time < RoundMilliseconds / 2)
            {
                time = Run().Item1;
                if (time < RoundMilliseconds / 2) count *= 2;
            }
        }

        public void Measure(int round)
        {
            var (time, allocated) = Run();
            Times[round] = time * 1e6 / count;
            Allocated[round] = allocated / count;
        }
    }

    static double Median(double[] values)
    {
        var sorted = (double[])values.Clone();
        Array.Sort(sorted);
        return sorted[sorted.Length / 2];
    }

    static int Main()
    {
        var hello = System.Text.Encoding.ASCII.GetBytes("Hello World");
        var large = new byte[50_000];
        Array.Fill(large, (byte)'a');
        var cases = Array.ConvertAll(
            new[]
            {
                new Workload("hello", hello, 1, Whole),
                new Workload("large", large, 1, Whole),
                new Workload("many", hello, Many, ManyWhole),
                new Workload("many_large", large, Many, ManyWhole),
                new Workload("append", hello, 1, Append),
                new Workload("span", hello, 1, Span),
                new Workload("span_large", large, 1, Span),
                new Workload("batched", hello, Many, Batch),
            },
            workload => new Case(workload));
        foreach (var one in cases) one.WarmUp();
        for (var round = 0; round < Rounds; round++)
            foreach (var one in cases) one.Measure(round);
        Console.WriteLine(".NET " + Environment.Version);
        foreach (var one in cases)
            Console.WriteLine(string.Format(CultureInfo.InvariantCulture, "{0},{1:F1},{2:F3}", one.Name, Median(one.Times), Median(one.Allocated)));
        return 0;
    }
}
