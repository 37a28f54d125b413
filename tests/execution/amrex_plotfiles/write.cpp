// Wrote the plotfiles beside it (renamed), with AMReX 24.10 (92679babfc), without MPI and Fortran, in two dimensions:
//   ./configure --dim 2 --with-fortran no --with-mpi no --enable-particle no --enable-fortran-api no \
//       --enable-linear-solver no --prefix inst && make install
//   g++ -std=c++17 write.cpp -Iinst/include -Linst/lib -lamrex -o write && ./write && ./write fab.format=NATIVE_32
#include <AMReX.H>
#include <AMReX_MultiFab.H>
#include <AMReX_PlotFileUtil.H>
using namespace amrex;
// Two levels, two variables, boxes of 8 cells: phi(x, y) = x + 10 y in cell indices (level 0), doubled on level 1.
int main(int argc, char** argv) {
    Initialize(argc, argv);
    {
        Vector<MultiFab> data(2);
        Vector<Geometry> geom(2);
        RealBox real({0.0, 0.0}, {1.0, 1.0});
        Box domain(IntVect(0, 0), IntVect(15, 15));
        for (int level = 0; level < 2; ++level) {
            geom[level] = Geometry(level ? amrex::refine(domain, 2) : domain, &real, 0, nullptr);
            BoxArray boxes(level ? Box(IntVect(8, 8), IntVect(23, 15)) : domain);
            boxes.maxSize(8);
            data[level].define(boxes, DistributionMapping(boxes), 2, 0);
            for (MFIter it(data[level]); it.isValid(); ++it) {
                auto const& a = data[level].array(it);
                Loop(it.validbox(), [=](int i, int j, int k) {
                    a(i, j, k, 0) = (level + 1) * (i + 10.0 * j);
                    a(i, j, k, 1) = -1.0 / (1 + i + j);
                });
            }
        }
        Vector<const MultiFab*> pointers{&data[0], &data[1]};
        WriteMultiLevelPlotfile("plt_amrex", 2, pointers, {"density", "pressure"}, geom, 0.25, {3, 6},
                                {IntVect(2, 2)});
    }
    Finalize();
}
